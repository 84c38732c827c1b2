# plimsoll_room(<name> [THREADED] SOURCES … HEADERS … TESTS … DEPS … LIBS …)
#
# One room of src/: the static library plimsoll_<name>, known to others as plimsoll::<name>, and the program of its tests.
#   SOURCES   .cc files; a room without any is headers only
#   HEADERS   .h files; each must compile alone, which the build checks (target all_verify_interface_header_sets)
#   TESTS     *_test.cc beside the sources
#   DEPS      rooms this one may include, by name; tools/check_layers.py has the last word on which
#   LIBS      third-party targets of PlimsollDependencies.cmake
#   THREADED  the tests start threads: they run under ThreadSanitizer too (label and target `threaded`)
#
# A nested room carries its folder in its name: plimsoll_room(readers_kineto …) in src/readers/kineto.
#
# plimsoll_test(<name> [THREADED] SOURCES … DEPS …)
#
# The GoogleTest program <name>_test, which may use the rooms in DEPS; ctest shows each case as <name>.<Suite>.<case>. A room's tests
# become one by themselves; tests that cross rooms stand in tests/ and call this.

add_custom_target(threaded COMMENT "Tests that start threads")

function(plimsoll_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "THREADED" "" "SOURCES;HEADERS;TESTS;DEPS;LIBS")
  if(room_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "plimsoll_room(${name}): what is ${room_UNPARSED_ARGUMENTS}?")
  endif()
  list(TRANSFORM room_DEPS PREPEND plimsoll::)

  set(target plimsoll_${name})
  if(room_SOURCES)
    set(seen PUBLIC)
    add_library(${target} STATIC ${room_SOURCES})
    target_link_libraries(${target} PRIVATE plimsoll_options)
    plimsoll_precompiled(${target} LIBRARY)
  else()
    set(seen INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(plimsoll::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY PLIMSOLL_ROOMS ${name}) # PlimsollInstall.cmake groups them into libraries
  target_sources(
    ${target} ${seen} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include FILES ${room_HEADERS}
  )
  target_link_libraries(${target} ${seen} ${room_DEPS} ${room_LIBS})

  if(room_TESTS)
    set(threaded)
    if(room_THREADED)
      set(threaded THREADED)
    endif()
    plimsoll_test(${name} ${threaded} SOURCES ${room_TESTS} DEPS ${name})
  endif()
endfunction()

function(plimsoll_test name)
  if(NOT PLIMSOLL_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 test "THREADED" "" "SOURCES;DEPS")
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "plimsoll_test(${name}): what is ${test_UNPARSED_ARGUMENTS}?")
  endif()
  list(TRANSFORM test_DEPS PREPEND plimsoll::)

  add_executable(${name}_test ${test_SOURCES})
  target_link_libraries(${name}_test PRIVATE plimsoll_options ${test_DEPS} GTest::gmock GTest::gtest_main)
  plimsoll_precompiled(${name}_test TEST)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}) # for "tests/conformance/…"
  # Where tests find their data; the samples outside the repository are looked for from here, too.
  target_compile_definitions(${name}_test PRIVATE PLIMSOLL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(test_THREADED)
    add_dependencies(threaded ${name}_test)
    set(labels LABELS threaded)
  endif()
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 ${labels})
endfunction()

# plimsoll_fake_library(<target> <source in tests/support> <file name> <folder of the build>): a shared library that tests load by its path.
function(plimsoll_fake_library target source name folder)
  add_library(${target} MODULE ${PROJECT_SOURCE_DIR}/tests/support/${source})
  set_target_properties(
    ${target} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder}
  )
  target_link_libraries(${target} PRIVATE plimsoll_options)
endfunction()
