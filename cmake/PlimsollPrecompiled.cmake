# PLIMSOLL_PRECOMPILED: the headers of the standard library and GoogleTest are compiled only once. The preset dev
# does not use it, so that it detects missing #include lines.
#
# plimsoll_precompiled(<target> LIBRARY|TEST)
option(PLIMSOLL_PRECOMPILED "Precompile the standard library's headers" OFF)

set(standard_headers
  <algorithm> <array> <atomic> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream>
  <string> <string_view> <unordered_map> <utility> <vector>
)

# Libraries and programs are compiled with different flags (-fPIC, -fPIE), which a precompiled header must share.
if(PLIMSOLL_PRECOMPILED)
  add_library(plimsoll_precompiled_library OBJECT ${CMAKE_CURRENT_LIST_DIR}/precompiled/main.cc)
  target_link_libraries(plimsoll_precompiled_library PRIVATE plimsoll_options)
  target_precompile_headers(plimsoll_precompiled_library PRIVATE ${standard_headers})
  if(PLIMSOLL_TESTS)
    add_executable(plimsoll_precompiled_test ${CMAKE_CURRENT_LIST_DIR}/precompiled/main.cc)
    target_link_libraries(plimsoll_precompiled_test PRIVATE plimsoll_options GTest::gmock)
    target_compile_options(plimsoll_precompiled_test PRIVATE $<$<CONFIG:Debug>:-O0>) # as in plimsoll_test
    target_precompile_headers(plimsoll_precompiled_test PRIVATE ${standard_headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

function(plimsoll_precompiled target kind)
  if(PLIMSOLL_PRECOMPILED)
    string(TOLOWER ${kind} kind)
    target_precompile_headers(${target} REUSE_FROM plimsoll_precompiled_${kind})
  endif()
endfunction()
