// Where a program is that a launcher shall start.
//
// Errors:        say what is wrong with the path and what to do about it.
// Thread-safety: stateless.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/fs.h"
#include "rpc/base/options.h"

namespace gradwire::launch {

// The path of the program `name`: itself where it has a slash; else what PATH of `environment`
// finds. NOT_FOUND: no such file; FAILED_PRECONDITION: a folder, or not executable.
absl::StatusOr<std::string> FindProgram(const std::string& name, const Environment& environment,
                                        FileSystem& fs);

// The path of the program of a role ("ps", "worker") that belongs to the gradwire at `self`: in
// libexec/gradwire beside its folder where Gradwire is installed, beside itself where it was built.
// NOT_FOUND names both places.
absl::StatusOr<std::string> FindRoleProgram(const std::string& role, const std::string& self,
                                            FileSystem& fs);

}  // namespace gradwire::launch
