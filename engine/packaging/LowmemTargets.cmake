# lowmem_library, lowmem_test and lowmem_bench: one way to declare each kind of
# target, so that warnings, sanitizers and floating-point rules are the same
# everywhere.

# Compile rules shared by every target of the project.
add_library(lowmem_options INTERFACE)
target_compile_features(lowmem_options INTERFACE cxx_std_20)
target_compile_options(lowmem_options INTERFACE
  -Wall -Wextra -Wshadow -Wno-sign-compare -Wno-missing-field-initializers
  # A fused multiply-add happens where the code writes one and nowhere else:
  # results must not depend on the target's default.
  -ffp-contract=off)
target_include_directories(lowmem_options INTERFACE ${PROJECT_SOURCE_DIR})
# Files of more than 2 GiB where a long is 32 bits.
target_compile_definitions(lowmem_options INTERFACE _FILE_OFFSET_BITS=64)
if(LOWMEM_WERROR)
  target_compile_options(lowmem_options INTERFACE -Werror)
endif()
if(LOWMEM_SANITIZE)
  target_compile_options(lowmem_options INTERFACE
    -fsanitize=${LOWMEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lowmem_options INTERFACE -fsanitize=${LOWMEM_SANITIZE})
endif()

# lowmem_precompiled(TARGET OWNER HEADER...): TARGET gets the headers precompiled, once
# for all targets that name the same OWNER, the first of them.
function(lowmem_precompiled target owner)
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# lowmem_library(NAME <name> SRCS ... DEPS ...): one internal layer.
function(lowmem_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PUBLIC lowmem_options ${ARG_DEPS})
  set_target_properties(${ARG_NAME} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(LOWMEM_PRECOMPILE)
    lowmem_precompiled(${ARG_NAME} lowmem_base
      <algorithm> <cstdint> <memory> <optional> <string> <utility> <vector>
      <absl/functional/function_ref.h> <absl/status/statusor.h>
      <absl/strings/str_cat.h> <absl/types/span.h>)
  endif()
endfunction()

# lowmem_test(NAME <name> SRCS ... DEPS ... [LABELS ...] [TIMEOUT s] [CASES ...]): one
# ctest, or one for each of CASES (names of parameters), so that a case which skips
# itself is counted as skipped and the others as passed.
# Tests find their data through LOWMEM_TESTDATA_DIR.
function(lowmem_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SRCS;DEPS;LABELS;CASES" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE lowmem_options ${ARG_DEPS}
    GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${ARG_NAME} PRIVATE
    LOWMEM_TESTDATA_DIR="${PROJECT_SOURCE_DIR}/tests/testdata"
    LOWMEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    LOWMEM_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${ARG_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  # What is tested is optimised; the assertions around it are code that runs once, and
  # took half of the time of a build. Emulated, it would run too slowly; and optimised,
  # GCC 12 warns of what is not ours where it comes from a precompiled header.
  if(NOT CMAKE_CROSSCOMPILING)
    target_compile_options(${ARG_NAME} PRIVATE -O0)
    if(LOWMEM_PRECOMPILE)
      lowmem_precompiled(${ARG_NAME} storage_base_test
        <absl/status/statusor.h> <gmock/gmock.h> <gtest/gtest.h>)
    endif()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(ARG_CASES)
    set(test_names)
    foreach(case ${ARG_CASES})
      add_test(NAME ${ARG_NAME}.${case}
        COMMAND ${ARG_NAME} --gtest_filter=*/${case})
      list(APPEND test_names ${ARG_NAME}.${case})
    endforeach()
    set_tests_properties(${test_names} PROPERTIES
      SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]"
      FAIL_REGULAR_EXPRESSION "Running 0 tests")
    set_tests_properties(${test_names} PROPERTIES
      LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  else()
    # Each TEST by its own name, so that ctest counts what passed and what was skipped.
    gtest_discover_tests(${ARG_NAME} NO_PRETTY_VALUES
      DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()

# lowmem_bench(NAME <name> SRCS ... DEPS ...): one Google Benchmark program.
function(lowmem_bench)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE lowmem_options ${ARG_DEPS}
    benchmark::benchmark benchmark::benchmark_main)
  set_target_properties(${ARG_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endfunction()
