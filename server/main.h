// The role of a parameter server: `ps`, and `my_app ps`.
#pragma once

#include <string>
#include <vector>

namespace gradwire::server {

// Runs until SIGTERM or SIGINT; the exit status. `arguments` without program and role. Serves the
// verbs, and the functions of GW_FUNCTION. The first thread of the process calls it.
int Main(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace gradwire::server
