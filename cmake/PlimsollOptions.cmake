# Language level, warnings, sanitizers and build tools. Warnings apply only to our code, through plimsoll_options; what must be the
# same in every object (language, visibility, sanitizers) is set for the whole build.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the modules end up in a Python extension
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(plimsoll_options INTERFACE)
target_compile_options(
  plimsoll_options
  INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow $<$<BOOL:${PLIMSOLL_WERROR}>:-Werror>
  # In libstdc++ 12, std::stable_sort calls a deprecated function, and Clang reports that in our code.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
)

# Error messages and debug information name files relative to the root of the repository.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

if(PLIMSOLL_SANITIZE)
  # A sanitizer's finding ends the program, so that no test can ignore it.
  add_compile_options(-fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PLIMSOLL_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitizer_ignore.txt)
  endif()
endif()

if(PLIMSOLL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "PLIMSOLL_FUZZ needs Clang with libFuzzer: use the preset `asan`.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link) # every module reports its coverage to the fuzzer
endif()

if(PLIMSOLL_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT CMAKE_INTERPROCEDURAL_OPTIMIZATION OUTPUT lto_problem LANGUAGES CXX)
  if(lto_problem)
    message(STATUS "Link-time optimisation does not work here, building without: ${lto_problem}")
  endif()
endif()

find_program(PLIMSOLL_CCACHE ccache)
if(PLIMSOLL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With a base directory, two checkouts of the same source share their objects. Without the hash of the build folder, so do two
  # builds with the same flags (the everyday build and the wheel that scripts/test makes).
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${PLIMSOLL_CCACHE}
  )
endif()

find_program(PLIMSOLL_MOLD mold)
if(PLIMSOLL_MOLD AND NOT PLIMSOLL_LTO) # mold links faster; with LTO the compiler's own linker is safer
  add_link_options(-fuse-ld=mold)
endif()
