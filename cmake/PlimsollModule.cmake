# plimsoll_module(<name> [THREADED] SOURCES … HEADERS … TESTS … DEPS … LIBS …)
#
# A module of src/: the static library plimsoll_<name>, with the alias plimsoll::<name>, and its test program.
#   SOURCES   .cc files; a module without any is headers only
#   HEADERS   .h files; each must compile alone, which `scripts/test headers` checks (see plimsoll_headers_to_verify)
#   TESTS     *_test.cc next to the sources
#   DEPS      modules that this one includes; tools/check_layers.py says which it may include
#   LIBS      third-party targets of PlimsollDependencies.cmake
#   THREADED  the tests start threads: they also run under ThreadSanitizer (label and target `threaded`)
#
# The name of a nested module contains its folder: plimsoll_module(readers_kineto …) in src/readers/kineto.
#
# plimsoll_test(<name> [THREADED] SOURCES … DEPS …)
#
# The GoogleTest program <name>_test, which may use the modules in DEPS. For ctest it is one test, <name>, since starting a process
# for each case takes longer than most cases. Cases whose name begins with slow_ are a test of their own, <name>.slow, with the
# label slow.
# plimsoll_module() calls this for the module's tests; tests of several modules are in tests/ and call it themselves.

add_custom_target(threaded COMMENT "Tests that start threads")

# A header that its source or its test includes first compiles alone if that file compiles. The others are compiled by the target
# all_verify_interface_header_sets.
function(plimsoll_headers_to_verify result)
  set(unproven)
  foreach(header ${ARGN})
    string(REGEX REPLACE "\\.h$" "" stem ${header})
    set(first)
    foreach(source ${stem}.cc ${stem}_test.cc)
      if(NOT first AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
        file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
      endif()
    endforeach()
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    if(NOT first STREQUAL "#include \"${path}\"")
      list(APPEND unproven ${header})
    endif()
  endforeach()
  set(${result} ${unproven} PARENT_SCOPE)
endfunction()

function(plimsoll_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "THREADED" "" "SOURCES;HEADERS;TESTS;DEPS;LIBS")
  if(module_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "plimsoll_module(${name}): unknown argument ${module_UNPARSED_ARGUMENTS}")
  endif()
  list(TRANSFORM module_DEPS PREPEND plimsoll::)

  set(target plimsoll_${name})
  if(module_SOURCES)
    set(seen PUBLIC)
    add_library(${target} STATIC ${module_SOURCES})
    target_link_libraries(${target} PRIVATE plimsoll_options)
    plimsoll_precompiled(${target} LIBRARY)
  else()
    set(seen INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(plimsoll::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY PLIMSOLL_MODULES ${name}) # PlimsollInstall.cmake groups them into libraries
  target_sources(
    ${target} ${seen} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include FILES ${module_HEADERS}
  )
  plimsoll_headers_to_verify(unproven ${module_HEADERS})
  if(unproven)
    target_sources(
      ${target} ${seen}
      FILE_SET unproven TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include FILES ${unproven}
    )
    set_target_properties(${target} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY unproven)
  else()
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS OFF)
  endif()
  target_link_libraries(${target} ${seen} ${module_DEPS} ${module_LIBS})

  if(module_TESTS)
    set(threaded)
    if(module_THREADED)
      set(threaded THREADED)
    endif()
    plimsoll_test(${name} ${threaded} SOURCES ${module_TESTS} DEPS ${name})
  endif()
endfunction()

function(plimsoll_test name)
  if(NOT PLIMSOLL_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 test "THREADED" "" "SOURCES;DEPS")
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "plimsoll_test(${name}): unknown argument ${test_UNPARSED_ARGUMENTS}")
  endif()
  list(TRANSFORM test_DEPS PREPEND plimsoll::)

  add_executable(${name}_test ${test_SOURCES})
  target_link_libraries(${name}_test PRIVATE plimsoll_options ${test_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name}_test PRIVATE $<$<CONFIG:Debug>:-O0>) # takes a third less time to compile; the modules stay optimized
  plimsoll_precompiled(${name}_test TEST)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}) # for "tests/conformance/…"
  # The folder with the tests' data, from which the samples are also found.
  target_compile_definitions(${name}_test PRIVATE PLIMSOLL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set(labels)
  if(test_THREADED)
    add_dependencies(threaded ${name}_test)
    set(labels threaded)
  endif()
  plimsoll_test_cases(${name} ${name}_test "-*.slow_*" "${labels}")
  foreach(source ${test_SOURCES})
    file(STRINGS ${source} slow REGEX "(, |^ +)slow_[a-z0-9_]*\\)" LIMIT_COUNT 1)
    if(slow)
      plimsoll_test_cases(${name}.slow ${name}_test "*.slow_*" "${labels};slow")
      break()
    endif()
  endforeach()
endfunction()

# One process for all cases of a program that match the filter.
function(plimsoll_test_cases name program filter labels)
  add_test(NAME ${name} COMMAND ${program} --gtest_filter=${filter})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
endfunction()

# plimsoll_fake_library(<target> <source in tests/support> <file name> <folder of the build>): a shared library that tests load by its path.
function(plimsoll_fake_library target source name folder)
  add_library(${target} MODULE ${PROJECT_SOURCE_DIR}/tests/support/${source})
  set_target_properties(
    ${target} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder}
  )
  target_link_libraries(${target} PRIVATE plimsoll_options)
endfunction()
