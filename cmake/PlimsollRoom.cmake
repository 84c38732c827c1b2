# plimsoll_room(<name> [THREADED] SOURCES … HEADERS … TESTS … DEPS … LIBS … TEST_DEPS …)
#
# One room of src/: the static library plimsoll_<name>, known to others as plimsoll::<name>, and one test program of its tests.
#   SOURCES    .cc files; a room without any is headers only
#   HEADERS    .h files; each must compile alone, which the build checks (target all_verify_interface_header_sets)
#   TESTS      *_test.cc, linked into <name>_test; ctest shows each case as <name>.<Suite>.<case>
#   DEPS       rooms this one may include, by name; tools/check_layers.py has the last word on which
#   LIBS       third-party targets of PlimsollDependencies.cmake
#   TEST_DEPS  rooms that only the tests use
#   THREADED   the tests start threads: they run under ThreadSanitizer too (label and target `threaded`)
#
# A nested room carries its folder in its name: plimsoll_room(readers_kineto …) in src/readers/kineto.

add_custom_target(threaded COMMENT "Tests that start threads")

function(plimsoll_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "THREADED" "" "SOURCES;HEADERS;TESTS;DEPS;LIBS;TEST_DEPS")
  if(room_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "plimsoll_room(${name}): what is ${room_UNPARSED_ARGUMENTS}?")
  endif()
  list(TRANSFORM room_DEPS PREPEND plimsoll::)
  list(TRANSFORM room_TEST_DEPS PREPEND plimsoll::)

  set(target plimsoll_${name})
  if(room_SOURCES)
    set(seen PUBLIC)
    add_library(${target} STATIC ${room_SOURCES})
    target_link_libraries(${target} PRIVATE plimsoll_options)
  else()
    set(seen INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(plimsoll::${name} ALIAS ${target})
  target_sources(
    ${target} ${seen} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include FILES ${room_HEADERS}
  )
  target_link_libraries(${target} ${seen} ${room_DEPS} ${room_LIBS})

  if(NOT PLIMSOLL_TESTS OR NOT room_TESTS)
    return()
  endif()
  add_executable(${name}_test ${room_TESTS})
  target_link_libraries(${name}_test PRIVATE plimsoll_options plimsoll::${name} ${room_TEST_DEPS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}) # for "tests/conformance/…"
  # Where tests find their data; samples outside the repository are looked for from here, too.
  target_compile_definitions(${name}_test PRIVATE PLIMSOLL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(room_THREADED)
    add_dependencies(threaded ${name}_test)
    set(labels LABELS threaded)
  endif()
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 ${labels})
endfunction()
