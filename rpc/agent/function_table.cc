#include "rpc/agent/function_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire::rpc {
namespace {

// Levenshtein distance, for names of at most 128 characters.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

absl::Status CheckName(absl::string_view what, absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("_.-/~:").find(c) != absl::string_view::npos;
  };
  if (!name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the ", what, " \"", absl::CHexEscape(name.substr(0, 128)),
                   "\" is not 1 to 128 characters of [A-Za-z0-9_.-/~:]"));
}

absl::StatusOr<std::shared_ptr<const FunctionTable>> FunctionTable::Build(
    std::vector<BoundFunction> functions) {
  auto table = std::make_shared<FunctionTable>();
  for (BoundFunction& function : functions) {
    if (absl::Status named = CheckName("function name", function.name); !named.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(named.message(), " (bound at ", function.place, ")"));
    }
    const auto [entry, inserted] = table->functions_.try_emplace(function.name);
    if (!inserted) {
      return absl::AlreadyExistsError(absl::StrCat("function ", function.name,
                                                   " is bound twice: at ", entry->second.place,
                                                   " and at ", function.place));
    }
    table->names_.push_back(function.name);
    entry->second = std::move(function);
  }
  std::sort(table->names_.begin(), table->names_.end());
  return std::shared_ptr<const FunctionTable>(std::move(table));
}

const BoundFunction* FunctionTable::Find(absl::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : &found->second;
}

absl::Status FunctionTable::Unknown(absl::string_view name) const {
  std::string message = absl::StrCat("no function ", name, " is bound here");
  const std::string* nearest = nullptr;
  size_t distance = 4;
  for (const std::string& candidate : names_) {
    const size_t d = EditDistance(name, candidate);
    if (d < distance) {
      distance = d;
      nearest = &candidate;
    }
  }
  if (nearest != nullptr) {
    absl::StrAppend(&message, "; did you mean ", *nearest, "?");
  } else {
    absl::StrAppend(&message, "; bind it in the callee's Registry before Agent::Start");
  }
  return absl::NotFoundError(message);
}

}  // namespace gradwire::rpc
