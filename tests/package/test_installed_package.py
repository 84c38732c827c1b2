"""The installed package: its contents, its dependencies, and programs that link it."""

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*words, **how) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **how)


def test_every_public_header_is_installed_and_compiles_alone(installed_package, tmp_path):
    headers = {path.name for path in (ROOT / "include/plimsoll").glob("*.h")}
    folder = installed_package / "include/plimsoll"
    assert {path.name for path in folder.glob("*.h")} == headers
    # Each header is the first include of a file, so that it cannot depend on other headers.
    for header in sorted(headers):
        source = tmp_path / f"{header}.cc"
        source.write_text(f"#include <plimsoll/{header}>\n")
    compiler = os.environ.get("CXX", "g++")
    words = ["-std=c++20", "-Wall", "-Wextra", "-fsyntax-only", f"-I{installed_package}/include"]
    compiled = run(compiler, *words, *sorted(tmp_path.glob("*.cc")))
    assert compiled.returncode == 0, compiled.stderr
    assert compiled.stderr == ""


def test_no_installed_file_has_the_path_where_it_was_built_or_installed(installed_package):
    texts = [*installed_package.rglob("*.cmake"), *installed_package.rglob("*.pc")]
    assert len(texts) >= 10
    for path in texts:
        text = path.read_text()
        assert str(ROOT) not in text, path
        assert "/install" not in text.replace("/install(", ""), path


def test_a_program_can_have_a_libbacktrace_of_its_own(installed_package):
    defined = {}
    for library in [*installed_package.rglob("*.a"), *installed_package.rglob("*.so")]:
        symbols = run("nm", "--extern-only", "--defined-only", "--format=posix", library).stdout
        defined[library.name] = {line.split(" ")[0] for line in symbols.splitlines()}
    assert "plimsoll_backtrace_pcinfo" in defined["libplimsoll_record.a"]
    for symbols in defined.values():
        assert not [each for each in symbols if each.startswith(("backtrace_", "dl_iterate"))]


CONSUMER = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(plimsoll {version} CONFIG REQUIRED {components})
add_executable(consumer {source})
target_link_libraries(consumer PRIVATE {targets})
"""


def configure(folder: Path, prefix: Path, *settings: str, **values) -> subprocess.CompletedProcess:
    folder.mkdir(exist_ok=True)
    values = {"version": "", "components": "", "targets": "plimsoll::record"} | values
    values = {"source": ROOT / "tests/package/recorded_program.cc"} | values
    (folder / "CMakeLists.txt").write_text(CONSUMER.format(**values))
    words = ["cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}"]
    return run(*words, *settings)


WITHOUT_LIBRARIES = ("ZLIB", "yaml-cpp", "RapidJSON", "tsl-robin-map")
WITHOUT_LIBRARIES = tuple(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in WITHOUT_LIBRARIES)


def test_the_record_component_needs_no_library(installed_package, tmp_path):
    settings = ("-G", "Ninja", *WITHOUT_LIBRARIES)
    configured = configure(tmp_path, installed_package, *settings, components="COMPONENTS record")
    assert configured.returncode == 0, configured.stderr
    built = run("cmake", "--build", tmp_path / "build")
    assert built.returncode == 0, built.stdout
    needed = run("ldd", tmp_path / "build/consumer").stdout
    assert "libz" not in needed
    assert run(tmp_path / "build/consumer", "alloc:1").returncode == 0


def test_an_unavailable_component_is_an_error_with_the_reason(installed_package, tmp_path):
    configured = configure(
        tmp_path, installed_package, *WITHOUT_LIBRARIES, components="COMPONENTS engine"
    )
    assert configured.returncode != 0
    assert "plimsoll::engine needs ZLIB, which was not found" in " ".join(configured.stderr.split())


def test_another_version_is_refused(installed_package, tmp_path):
    configured = configure(tmp_path, installed_package, version="99.0")
    assert configured.returncode != 0
    assert "plimsollConfig" in configured.stderr


def test_pkg_config_knows_each_library_and_its_version(pkg_config):
    version = next(
        line.split('"')[1]
        for line in (ROOT / "include/plimsoll/version.h").read_text().splitlines()
        if "define PLIMSOLL_VERSION" in line
    )
    for library in ("record", "monitor", "config", "engine"):
        assert run(*pkg_config, "--modversion", f"plimsoll-{library}").stdout.strip() == version


def test_a_program_records_and_reads_its_recording_through_pkg_config(pkg_config, tmp_path):
    source = tmp_path / "program.cc"
    source.write_text(
        textwrap.dedent("""
        #include <cstdio>
        #include "plimsoll/monitor.h"
        #include "plimsoll/recorder.h"
        #include "plimsoll/session.h"

        int main() {
          auto recording = plimsoll::Recording::start({});
          if (!recording) return 1;
          const plimsoll_recorder_api* api = plimsoll_recorder();
          api->alloc(api->context(), 0, 0x1000, 4096);
          recording->flush();
          auto session = plimsoll::Session::open_memory(recording->copy(), "memory");
          if (!session) return std::fprintf(stderr, "%s", session.error().message.c_str()), 2;
          auto report = session->ask();
          if (!report) return std::fprintf(stderr, "%s", report.error().message.c_str()), 2;
          std::puts(report->json().c_str());
          return plimsoll::MemoryMonitor::get_cpu_memory_mb() > 0 ? 0 : 3;
        }
        """)
    )
    words = (*pkg_config, "--cflags", "--libs", "plimsoll-engine", "plimsoll-monitor")
    flags = run(*words).stdout.split()
    compiler = os.environ.get("CXX", "g++")
    compiled = run(compiler, "-std=c++20", source, *flags, "-o", tmp_path / "p")
    assert compiled.returncode == 0, compiled.stderr
    ran = run(tmp_path / "p")
    assert ran.returncode == 0, ran.stderr
    (cpu,) = json.loads(ran.stdout)["devices"]
    assert cpu["requested_active"]["peak_bytes"] == 4096


def test_a_program_reads_layer_calls_and_totals_of_its_recording(pkg_config, tmp_path):
    source = tmp_path / "program.cc"
    source.write_text(
        textwrap.dedent("""
        #include <cstdio>
        #include "plimsoll/recorder.h"
        #include "plimsoll/tracer_results.h"

        int main() {
          auto recording = plimsoll::Recording::start({.marks_layer_calls = true});
          if (!recording) return 1;
          const plimsoll_recorder_api* api = plimsoll_recorder();
          {
            PLIMSOLL_LAYER("fc1");
            api->alloc(api->context(), 0, 0x1000, 4096);
            api->alloc(api->context(), 0, 0x3000, 512);
            api->free(api->context(), 0, 0x1000);
          }
          const auto bytes = recording->take();
          auto results = plimsoll::TracerResults::read_memory(bytes);
          if (!results) return std::fprintf(stderr, "%s", results.error().message.c_str()), 2;
          const auto missing = plimsoll::TracerResults::read_memory(bytes, "cuda:7");
          if (missing) return 3;
          std::puts(missing.error().message.c_str());
          for (const auto& event : results->events()) {
            std::printf("%s %s %llu %llu\\n", event.event_type.c_str(),
                        event.layer_name.value_or("-").c_str(),
                        static_cast<unsigned long long>(event.size_bytes),
                        static_cast<unsigned long long>(event.allocated_bytes));
          }
          const auto& fc1 = results->get_layer_stats().at("fc1");
          std::printf("%d %d %d %d\\n", int(fc1.peak_allocated), int(fc1.total_allocations),
                      int(fc1.total_deallocations), int(fc1.calls));
        }
        """)
    )
    flags = run(*pkg_config, "--cflags", "--libs", "plimsoll-engine").stdout.split()
    compiler = os.environ.get("CXX", "g++")
    compiled = run(compiler, "-std=c++20", source, *flags, "-o", tmp_path / "p")
    assert compiled.returncode == 0, compiled.stderr
    ran = run(tmp_path / "p")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "the recording has no device cuda:7",
        "snapshot - 0 0",
        "layer_enter fc1 0 0",
        "alloc fc1 4096 4096",
        "alloc fc1 512 4608",
        "free fc1 4096 512",
        "layer_exit fc1 0 512",
        "snapshot - 0 512",
        "4608 2 1 1",
    ]


def test_the_command_is_installed_and_runs(installed_package, recorded_program, tmp_path):
    command = installed_package / "bin/plimsoll"
    ran = run(command, "run", "-o", "x.plim", "--", recorded_program, "alloc:9", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    library = installed_package / "lib/plimsoll/libplimsoll_cuda_driver.so"
    if not library.exists():
        pytest.skip("the CUDA driver library is built on Linux alone")
    ran = run(command, "run", "--cuda-driver", "--", "/bin/true", cwd=tmp_path)
    assert "never requested memory from the CUDA driver" in ran.stderr
