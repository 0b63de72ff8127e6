# Debian's cross compilers, libraries unpacked by fetch_sysroot, and qemu's user
# emulation, under which ctest runs what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${LOWMEM_CROSS_PROCESSOR})
set(CMAKE_C_COMPILER ${LOWMEM_CROSS_TRIPLET}-gcc)
set(CMAKE_CXX_COMPILER ${LOWMEM_CROSS_TRIPLET}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${LOWMEM_CROSS_TRIPLET})

# Not CMAKE_SYSROOT: the compiler knows where its own C and C++ libraries are.
set(lowmem_sysroot
  "${CMAKE_CURRENT_LIST_DIR}/../../build/sysroot/${LOWMEM_CROSS_ARCHITECTURE}")
get_filename_component(lowmem_sysroot "${lowmem_sysroot}" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH "${lowmem_sysroot}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${lowmem_sysroot}")
set(ENV{PKG_CONFIG_LIBDIR}
  "${lowmem_sysroot}/usr/lib/${LOWMEM_CROSS_TRIPLET}/pkgconfig:${lowmem_sysroot}/usr/share/pkgconfig")

set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-${LOWMEM_CROSS_PROCESSOR} -L /usr/${LOWMEM_CROSS_TRIPLET})
