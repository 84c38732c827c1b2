#include "cli/runs/python_package.h"

#include <unistd.h>

#include <cstdlib>

#include "cli/runs/child_process.h"

namespace plimsoll::cli {
namespace {

// Finds the package. The current folder is first removed from the search path. sitecustomize runs
// only if plimsoll is not found without it, because the script's own Python runs it too.
constexpr const char* kFind = R"(import sys
if sys.path[:1] == [""]: del sys.path[0]
import site
from importlib.util import find_spec
known = site.venv(site.removeduppaths())
site.ENABLE_USER_SITE = site.check_enableusersite()
site.addsitepackages(site.addusersitepackages(known))
def package_folder():
    spec = find_spec("plimsoll")  # a module plimsoll.py has no locations
    return spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""
folder = package_folder()
if not folder:
    site.execsitecustomize()
    folder = package_folder()
if not folder:
    spec = find_spec("plimsoll")
    print("plimsoll: " + (f"{spec.origin} hides the package plimsoll" if spec else
          f"the package plimsoll is not installed for {sys.executable}"), file=sys.stderr)
    sys.exit(2)
from os.path import exists
if not exists(folder + "/_command/launch.py"):
    print(f"plimsoll: {folder} is of another project; remove it (pip uninstall plimsoll), and "
          "install plimsoll-profiler again", file=sys.stderr)
    sys.exit(2)
)";

constexpr const char* kRun = R"(path = folder + "/" + sys.argv.pop(1)
with open(path, "rb") as file: source = file.read()
exec(compile(source, path, "exec"), {"__name__": "__main__", "__file__": path})
)";

constexpr const char* kPrint = R"(if find_spec(sys.argv[1]) is None:
    print("plimsoll: this needs", sys.argv[1], "in", sys.executable, file=sys.stderr)
    sys.exit(2)
sys.stdout.write(folder)
)";

bool is_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

}  // namespace

std::string python() {
  if (const char* chosen = std::getenv("PLIMSOLL_PYTHON"); chosen != nullptr && *chosen != '\0') {
    return chosen;
  }
  char self[4096];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof(self));
  if (size > 0) {
    const std::string path(self, static_cast<std::size_t>(size));
    const std::string side_data = path.substr(0, path.rfind('/') + 1) + "python3";
    if (is_program(side_data)) return side_data;
  }
  return "python3";
}

std::vector<std::string> package_file(const std::string& file, const std::string& interpreter) {
  return {interpreter, "-S", "-c", std::string(kFind) + kRun, file};
}

Result<std::string> package_folder(const std::string& needed) {
  PLIMSOLL_TRY_ASSIGN(const ProgramOutput output,
                      read_program({python(), "-S", "-c", std::string(kFind) + kPrint, needed}));
  if (output.status == 0 && !output.out.empty()) return output.out;
  constexpr std::string_view kBegin = "plimsoll: ";
  std::string why = output.errors.substr(0, output.errors.find('\n'));
  if (why.starts_with(kBegin)) why.erase(0, kBegin.size());
  return make_error(ErrorCode::kInvalidArgument, why.empty() ? python() + " does not start" : why);
}

}  // namespace plimsoll::cli
