# All libraries that Plimsoll needs. Each is a Debian/Ubuntu package (packages.apt); nothing is downloaded here.
#
#   target                who uses it                      without it
#   rapidjson             readers, exporters (SAX)         no build
#   ZLIB::ZLIB            readers (.gz)                    no build
#   tsl::robin_map        model, readers (interning)       no build
#   yaml-cpp              config, and through it budgets   no build
#   GTest::gmock_main     tests                            -DPLIMSOLL_TESTS=OFF

find_package(Threads REQUIRED)
if(NOT PLIMSOLL_ENGINE)
  return() # the recorder needs no more
endif()
find_package(ZLIB REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(tsl-robin-map CONFIG REQUIRED)

# Debian's RapidJSON exports its include folder, not a target.
find_package(RapidJSON CONFIG REQUIRED)
add_library(rapidjson INTERFACE IMPORTED)
target_include_directories(rapidjson INTERFACE ${RapidJSON_INCLUDE_DIRS})

if(PLIMSOLL_TESTS)
  find_package(GTest CONFIG REQUIRED)
endif()
