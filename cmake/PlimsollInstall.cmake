# Installs headers, libraries, the CMake package, pkg-config files and the command into a prefix, for C++ programs.
#
#   target                   library                  needs                    component of find_package(plimsoll)
#   plimsoll::record         libplimsoll_record.a     threads                  record
#   plimsoll::monitor        libplimsoll_monitor.a    record                   record
#   plimsoll::libtorch       sources                  record, torch headers    record
#   plimsoll::libtorch_cuda  sources                  libtorch, CUDA headers   record
#   plimsoll::config         libplimsoll_config.a     monitor, yaml-cpp        config
#   plimsoll::engine         libplimsoll_engine.a     record, zlib             engine
#
# A library contains the objects of several modules. Everything is relocatable: no installed file names the prefix.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
set(headers_folder ${CMAKE_INSTALL_INCLUDEDIR}/plimsoll)

# plimsoll_library(<name> EXPORT <component> MODULES <modules…> OBJECTS <files…> USES <libraries of this file…> LIBS <targets…> REQUIRES <pkg-config names…>
#                  LDLIBS <flags…>)
function(plimsoll_library name)
  cmake_parse_arguments(PARSE_ARGV 1 library "" "EXPORT" "MODULES;OBJECTS;USES;LIBS;REQUIRES;LDLIBS")
  set(target plimsoll_installed_${name})
  list(TRANSFORM library_MODULES REPLACE "(.+)" "$<TARGET_OBJECTS:plimsoll_\\1>")
  add_library(${target} STATIC ${library_MODULES} ${library_OBJECTS})
  set_target_properties(
    ${target}
    PROPERTIES OUTPUT_NAME plimsoll_${name} EXPORT_NAME ${name} LINKER_LANGUAGE CXX ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
  )
  target_compile_features(${target} INTERFACE cxx_std_20)
  list(TRANSFORM library_USES PREPEND plimsoll_installed_ OUTPUT_VARIABLE used)
  target_link_libraries(${target} INTERFACE ${used} ${library_LIBS})
  install(
    TARGETS ${target}
    EXPORT plimsoll_${library_EXPORT}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp
    INCLUDES
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  )

  list(TRANSFORM library_USES PREPEND plimsoll- OUTPUT_VARIABLE requires)
  list(JOIN requires " " requires)
  list(JOIN library_REQUIRES " " others)
  list(JOIN library_LDLIBS " " libs)
  string(STRIP "${requires} ${others}" requires)
  file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/plimsoll.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/plimsoll-${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/plimsoll-${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT cpp)
endfunction()

get_property(backtrace_object GLOBAL PROPERTY PLIMSOLL_BACKTRACE_OBJECT)
plimsoll_library(
  record EXPORT record MODULES base format probes record native_stacks page OBJECTS ${backtrace_object} LIBS Threads::Threads ${CMAKE_DL_LIBS} LDLIBS -pthread -l${CMAKE_DL_LIBS}
)
plimsoll_library(
  monitor EXPORT record MODULES alerts text_log tensorboard live nvtx monitor USES record LIBS Threads::Threads ${CMAKE_DL_LIBS} LDLIBS -pthread -l${CMAKE_DL_LIBS}
)
set(exports record)
if(PLIMSOLL_ENGINE)
  plimsoll_library(config EXPORT config MODULES config USES monitor LIBS yaml-cpp REQUIRES yaml-cpp)
  set(engine_modules)
  get_property(all_modules GLOBAL PROPERTY PLIMSOLL_MODULES)
  foreach(module ${all_modules})
    get_target_property(type plimsoll_${module} TYPE)
    if(type STREQUAL STATIC_LIBRARY AND NOT module MATCHES "^(base|format|record|native_stacks|page|probes|alerts|text_log|tensorboard|live|nvtx|monitor|config|budgets|logs|top|nsys|cli)$")
      list(APPEND engine_modules ${module})
    endif()
  endforeach()
  plimsoll_library(engine EXPORT engine MODULES ${engine_modules} USES record LIBS ZLIB::ZLIB REQUIRES zlib)
  list(APPEND exports config engine)
  install(TARGETS plimsoll_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cpp)
  plimsoll_install_shell_files(${CMAKE_INSTALL_DATADIR} cpp)
endif()
if(TARGET plimsoll_cuda_driver)
  install(TARGETS plimsoll_cuda_driver LIBRARY DESTINATION lib/plimsoll COMPONENT cpp)
endif()

install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT cpp)

# ---- headers and the adapter's sources ----

get_target_property(public_headers plimsoll_public HEADER_SET_HEADERS)
list(TRANSFORM public_headers PREPEND ${PROJECT_SOURCE_DIR}/include/plimsoll/ REGEX "^[^/]")
install(FILES ${public_headers} DESTINATION ${headers_folder} COMPONENT cpp)

# plimsoll_adapter(<folder of adapters/> SOURCE <the file a program compiles> USES <library of this file>)
function(plimsoll_adapter name)
  cmake_parse_arguments(PARSE_ARGV 1 adapter "" "SOURCE;USES" "")
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/adapters/${name}/*.h ${PROJECT_SOURCE_DIR}/adapters/${name}/*.cc)
  install(FILES ${files} DESTINATION ${headers_folder}/${name} COMPONENT cpp)
  set(target plimsoll_installed_${name})
  add_library(${target} INTERFACE)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_sources(${target} INTERFACE $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${headers_folder}/${name}/${adapter_SOURCE}>)
  target_link_libraries(${target} INTERFACE plimsoll_installed_${adapter_USES})
  install(TARGETS ${target} EXPORT plimsoll_record INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()

plimsoll_adapter(libtorch SOURCE adapter.cc USES record)
plimsoll_adapter(libtorch_cuda SOURCE program_cuda_adapter.cc USES libtorch)

# ---- the package ----

foreach(component ${exports})
  install(
    EXPORT plimsoll_${component}
    NAMESPACE plimsoll::
    FILE plimsoll_${component}.cmake
    DESTINATION ${package_folder}
    COMPONENT cpp
  )
endforeach()
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/plimsollConfig.cmake.in ${PROJECT_BINARY_DIR}/plimsollConfig.cmake INSTALL_DESTINATION ${package_folder}
)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/plimsollConfig.cmake ${PROJECT_BINARY_DIR}/plimsollConfigVersion.cmake
  DESTINATION ${package_folder}
  COMPONENT cpp
)
