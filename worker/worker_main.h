// The role of a worker: `worker`, and `my_app worker`.
#pragma once

#include <string>
#include <vector>

namespace gradwire::worker {

// Runs one job; the exit status. `arguments` without program and role. The first thread of the
// process calls it.
int Main(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace gradwire::worker
