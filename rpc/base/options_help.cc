// The text of --help.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/options.h"

namespace gradwire {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 6;

// Appends `text` in lines of at most kColumns, each indented. A longer word gets a line of its own.
void AppendWrapped(std::string& out, absl::string_view text, size_t indent) {
  const std::string margin(indent, ' ');
  std::string line;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, margin, line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  if (!line.empty()) absl::StrAppend(&out, margin, line, "\n");
}

}  // namespace

std::string OptionTable::Help(absl::string_view program, absl::string_view about) const {
  std::string out = absl::StrCat("Usage: ", program, " [--option=value ...]\n\n");
  AppendWrapped(out, about, 0);
  // Groups in the order of their first rows, the one with --config last.
  std::vector<std::string> groups;
  for (const Entry& entry : entries_) {
    if (std::find(groups.begin(), groups.end(), entry.group) == groups.end()) {
      groups.push_back(entry.group);
    }
  }
  if (!groups.empty()) std::rotate(groups.begin(), groups.begin() + 1, groups.end());
  for (const std::string& group : groups) {
    absl::StrAppend(&out, "\n", group, ":\n");
    for (const Entry& entry : entries_) {
      if (entry.group != group) continue;
      absl::StrAppend(&out, "  --", entry.row.name);
      if (entry.is_bool) {
        absl::StrAppend(&out, "[=false]\n");
      } else {
        absl::StrAppend(&out, "=<", entry.type, ">\n");
      }
      std::string text = entry.row.help;
      if (!entry.bounds.empty()) absl::StrAppend(&text, " Allowed: ", entry.bounds, ".");
      absl::StrAppend(&text, " Default: ", entry.default_text.empty() ? "none" : entry.default_text,
                      ". Environment: ", entry.row.env, ".");
      AppendWrapped(out, text, kIndent);
    }
  }
  absl::StrAppend(&out, "  --help\n");
  AppendWrapped(out, "Shows this text.", kIndent);
  return out;
}

}  // namespace gradwire
