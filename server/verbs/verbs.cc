#include "server/verbs/verbs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/status.h"

namespace gradwire::server {

RuleSpec ToSpec(const optim::Rule& rule) {
  optim::NamedRule named = rule.ToNamed();
  return {.name = std::move(named.name), .options = std::move(named.options)};
}

InitSpec ToSpec(const optim::InitOptions& init) {
  return {.kind = static_cast<uint8_t>(init.kind), .a = init.a, .b = init.b};
}

absl::StatusOr<optim::Rule> RuleOf(const RuleSpec& spec) {
  return optim::Rule::FromNamed({.name = spec.name, .options = spec.options});
}

absl::StatusOr<optim::InitOptions> InitOf(const InitSpec& spec) {
  if (spec.kind > static_cast<uint8_t>(optim::InitKind::kXavier)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no initializer number ", spec.kind, "; is the server older?"));
  }
  const optim::InitOptions options{static_cast<optim::InitKind>(spec.kind), spec.a, spec.b};
  GW_RETURN_IF_ERROR(optim::Initializer::Create(options, 0, 0).status());
  return options;
}

std::string ToString(const TableSpec& spec) {
  const absl::StatusOr<optim::Rule> rule = RuleOf(spec.rule);
  std::string shape;
  if (spec.dim != 0) {
    const absl::StatusOr<optim::InitOptions> options = InitOf(spec.init);
    const std::string init =
        options.ok() ? optim::Initializer::Create(*options, 0, 0)->ToString() : "?";
    shape = absl::StrCat("rows of ", spec.dim, ", ", init, ", seed ", spec.seed);
  } else if (spec.element_counts.size() <= 8) {
    shape = absl::StrCat("dense [", absl::StrJoin(spec.element_counts, ", "), "]");
  } else {
    uint64_t total = 0;
    for (const uint64_t count : spec.element_counts) total += count;
    shape = absl::StrCat("dense, ", total, " elements in ", spec.element_counts.size(), " tensors");
  }
  return absl::StrCat(shape, ", ", rule.ok() ? rule->ToString() : spec.rule.name, ", ",
                      spec.server_count, spec.server_count == 1 ? " server" : " servers");
}

// FNV-1a, 64 bits (Fowler, Noll, Vo): the same on every machine.
uint64_t InitNumber(const std::string& table_name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : table_name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace gradwire::server
