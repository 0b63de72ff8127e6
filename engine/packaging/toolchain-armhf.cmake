# 32-bit ARM with NEON and VFPv4, which brings fused multiply-add and conversion of
# binary16: Raspberry Pi 2 and later with a 32-bit system. It needs flags of its own,
# since Debian's baseline, armv7-a with vfpv3-d16, has neither.
set(LOWMEM_CROSS_TRIPLET arm-linux-gnueabihf)
set(LOWMEM_CROSS_ARCHITECTURE armhf)
set(LOWMEM_CROSS_PROCESSOR arm)
# What GCC remarks of calls between its old and new versions is nobody's concern.
set(CMAKE_CXX_FLAGS_INIT "-mfpu=neon-vfpv4 -mfp16-format=ieee -Wno-psabi")
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
