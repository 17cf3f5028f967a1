#include "worker/main.h"

#include <malloc.h>

#include <iostream>
#include <vector>

#include "server/main.h"
#include "worker/worker_main.h"

namespace gradwire {
namespace {

// A step lets its gradients go and allocates them anew; if they went back to the kernel meanwhile,
// every page would fault again, each step: about 8 % of the digits' samples/s.
void KeepFreedMemory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

}  // namespace

int Main(int argc, char** argv, const std::string& default_role) {
  KeepFreedMemory();
  std::string program = argc > 0 ? argv[0] : "gradwire";
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
  std::string role = default_role;
  if (!arguments.empty() && !arguments[0].empty() && arguments[0][0] != '-') {
    role = arguments[0];
    arguments.erase(arguments.begin());
    program += " " + role;
  }
  if (role == "ps") return server::Main(program, arguments);
  if (role == "worker") return worker::Main(program, arguments);
  std::cerr << argv[0] << ": no role " << role << "; the first argument is ps or worker\n";
  return 1;
}

}  // namespace gradwire
