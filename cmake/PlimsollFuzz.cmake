# plimsoll_fuzz(<name> DEPS <modules…>)
#
# One fuzz target: tests/fuzz/fuzz_<name>.cc, with seeds in tests/fuzz/corpus/<name>/. With the preset `asan` it is a libFuzzer
# program, which scripts/test fuzz runs for 30 seconds. In every other preset it is a test that replays the seeds once, so that a
# seed that once broke a reader stays a regression test on every compiler and sanitizer.

add_custom_target(fuzzers COMMENT "Fuzz targets")

function(plimsoll_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 fuzz "" "" "DEPS")
  list(TRANSFORM fuzz_DEPS PREPEND plimsoll::)

  add_executable(fuzz_${name} fuzz_${name}.cc)
  target_link_libraries(fuzz_${name} PRIVATE plimsoll_options ${fuzz_DEPS})
  add_dependencies(fuzzers fuzz_${name})
  if(PLIMSOLL_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE replay_main.cc)
    add_test(NAME fuzz.${name}.corpus COMMAND fuzz_${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  endif()
endfunction()
