# 64-bit ARM: Raspberry Pi 3 and later with a 64-bit system, phones, servers.
# NEON is of the architecture, with fused multiply-add.
set(LOWMEM_CROSS_TRIPLET aarch64-linux-gnu)
set(LOWMEM_CROSS_ARCHITECTURE arm64)
set(LOWMEM_CROSS_PROCESSOR aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
