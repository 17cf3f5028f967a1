// The functions that an agent serves: name -> BoundFunction. Built once, then immutable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/agent/handler.h"

namespace gradwire::rpc {

// Whether `name` may name a function or an agent: 1 to 128 characters of [A-Za-z0-9_.-/~:]. The
// error quotes it.
absl::Status CheckName(absl::string_view what, absl::string_view name);

class FunctionTable {
 public:
  // INVALID_ARGUMENT: a name that is no name; ALREADY_EXISTS: bound twice, with both places.
  static absl::StatusOr<std::shared_ptr<const FunctionTable>> Build(
      std::vector<BoundFunction> functions);

  // Null: not bound.
  const BoundFunction* Find(absl::string_view name) const;

  // NOT_FOUND for a name that is not bound, with the nearest one that is.
  absl::Status Unknown(absl::string_view name) const;

 private:
  absl::flat_hash_map<std::string, BoundFunction>
      functions_;                   // looked up, never iterated for decisions
  std::vector<std::string> names_;  // sorted
};

}  // namespace gradwire::rpc
