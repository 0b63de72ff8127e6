# Installs lowmem into a folder, moves that folder, builds the example against it in
# three ways and runs it. Run as: cmake -D BUILD_DIR= -D WORK_DIR= -D MODEL_DIR=
# -D CXX= -D CXX_FLAGS= -D BUILD_TYPE= -P install_and_run.cmake
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The example greets, continues by four tokens and reports; an absent model is one
# clean line and exit code 1.
function(check_example program)
  execute_process(COMMAND ${ARGN} ${program} ${MODEL_DIR} "the cat" 4
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE report)
  if(NOT code EQUAL 0 OR text STREQUAL "" OR NOT report MATCHES "\\[4 tokens, length")
    message(FATAL_ERROR "${program}: exit ${code}\n${text}\n${report}")
  endif()
  execute_process(COMMAND ${ARGN} ${program} ${WORK_DIR}/absent "the cat" 4
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE report)
  if(NOT code EQUAL 1 OR NOT text STREQUAL "" OR NOT report MATCHES "^[^\n]*absent[^\n]*\n$")
    message(FATAL_ERROR "${program}, absent model: exit ${code}\n${text}\n${report}")
  endif()
  message(STATUS "${program}: ok")
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
file(RENAME ${WORK_DIR}/first ${WORK_DIR}/prefix)

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/build -G Ninja
  -D CMAKE_PREFIX_PATH=${WORK_DIR}/prefix -D CMAKE_CXX_COMPILER=${CXX}
  -D CMAKE_CXX_FLAGS=${CXX_FLAGS} -D CMAKE_BUILD_TYPE=${BUILD_TYPE})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
check_example(${WORK_DIR}/build/example_shared)
check_example(${WORK_DIR}/build/example_static)

file(GLOB_RECURSE pc_file ${WORK_DIR}/prefix/lowmem.pc)
cmake_path(GET pc_file PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
execute_process(COMMAND pkg-config --cflags --libs lowmem
  COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE)
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(cxx_flags UNIX_COMMAND "${CXX_FLAGS}")
run(${CXX} -std=c++17 ${cxx_flags} ${CMAKE_CURRENT_LIST_DIR}/main.cc ${flags}
  -o ${WORK_DIR}/example_pkg_config)
cmake_path(GET pc_dir PARENT_PATH lib_dir)
check_example(${WORK_DIR}/example_pkg_config
  ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${lib_dir})
