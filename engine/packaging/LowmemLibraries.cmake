# lowmem_static and lowmem_shared: the library as others link it. Both are put together
# from the objects of the layers, so that no layer is installed or exported by itself.
include(GNUInstallDirs)

set(lowmem_layers lowmem_base lowmem_storage lowmem_quant lowmem_model lowmem_text
  lowmem_cache lowmem_nn lowmem_generate)

set(lowmem_objects)
set(lowmem_absl_targets)
foreach(layer IN LISTS lowmem_layers)
  list(APPEND lowmem_objects $<TARGET_OBJECTS:${layer}>)
  get_target_property(layer_libraries ${layer} LINK_LIBRARIES)
  list(FILTER layer_libraries INCLUDE REGEX "^absl::")
  list(APPEND lowmem_absl_targets ${layer_libraries})
endforeach()
list(REMOVE_DUPLICATES lowmem_absl_targets)
list(SORT lowmem_absl_targets)

# What the public headers include.
set(lowmem_public_absl_targets absl::function_ref absl::span absl::status
  absl::statusor absl::strings)

# The same names in lowmemConfig.cmake, so that the exported targets mean the same.
pkg_check_modules(lowmem_hwy REQUIRED QUIET IMPORTED_TARGET libhwy)
pkg_check_modules(lowmem_pcre2 REQUIRED QUIET IMPORTED_TARGET libpcre2-8)
pkg_check_modules(lowmem_utf8proc REQUIRED QUIET IMPORTED_TARGET libutf8proc)
set(lowmem_private_libraries PkgConfig::lowmem_hwy PkgConfig::lowmem_pcre2
  PkgConfig::lowmem_utf8proc Threads::Threads)
set(LOWMEM_PC_URING)
set(LOWMEM_URING_MODULE)
if(TARGET lowmem_uring)
  pkg_check_modules(lowmem_uring REQUIRED QUIET IMPORTED_TARGET liburing)
  list(APPEND lowmem_private_libraries PkgConfig::lowmem_uring)
  set(LOWMEM_PC_URING ", liburing")
  set(LOWMEM_URING_MODULE uring)
endif()

function(lowmem_whole_library target kind)
  add_library(${target} ${kind} ${lowmem_objects})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME lowmem LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_compile_features(${target} INTERFACE cxx_std_17)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

lowmem_whole_library(lowmem_static STATIC)
target_link_libraries(lowmem_static INTERFACE
  ${lowmem_absl_targets} ${lowmem_private_libraries})
add_library(lowmem::lowmem_static ALIAS lowmem_static)

# Abseil comes from its shared libraries here: a program passes Abseil's types to
# lowmem, so the two must share one copy, and the archives are not position
# independent.
lowmem_whole_library(lowmem_shared SHARED)
target_link_libraries(lowmem_shared
  PRIVATE
    $<BUILD_INTERFACE:lowmem_options>
    -Wl,--as-needed ${LOWMEM_ABSL_SHARED_LIBRARIES} ${lowmem_private_libraries}
  INTERFACE
    ${lowmem_public_absl_targets})
set_target_properties(lowmem_shared PROPERTIES EXPORT_NAME lowmem)
add_library(lowmem::lowmem ALIAS lowmem_shared)
