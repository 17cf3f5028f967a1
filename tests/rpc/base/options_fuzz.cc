// Any command line, environment and file is understood or refused with a status; values that were
// accepted read back from their own text. Input: arguments up to an empty one, one value for every
// environment name, then the file; each ends with a zero byte.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/options.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace {

enum class Color { kRed, kBlue };

void Check(absl::string_view input) {
  std::vector<std::string> parts = absl::StrSplit(input, '\0');
  std::vector<std::string> arguments;
  size_t next = 0;
  while (next < parts.size() && !parts[next].empty()) arguments.push_back(parts[next++]);
  const std::string environment_value = ++next < parts.size() ? parts[next++] : "";
  std::string contents;
  for (; next < parts.size(); ++next) contents += parts[next] + '\0';

  SimFileSystem fs;
  GW_CHECK(fs.WriteAtomically("c", contents).ok());
  bool b = false;
  int64_t i = 1;
  double d = 1;
  std::string s;
  absl::Duration t = absl::Seconds(1);
  ByteCount n{1};
  std::vector<std::string> l;
  Color color = Color::kRed;
  OptionTable table;
  table.Add({.name = "b"}, &b);
  table.Add({.name = "i"}, &i);
  table.Add({.name = "d"}, &d);
  table.Add({.name = "s"}, &s);
  table.Add({.name = "t"}, &t);
  table.Add({.name = "n"}, &n);
  table.Add({.name = "l"}, &l);
  table.AddChoice({.name = "color"}, &color, {{"red", Color::kRed}, {"blue", Color::kBlue}});
  arguments.insert(arguments.begin(), "--config=c");
  const auto environment = [&](const std::string& name) -> std::optional<std::string> {
    if (environment_value.empty() || name == "GRADWIRE_CONFIG") return std::nullopt;
    return environment_value;
  };
  const auto parsed = table.Parse(arguments, environment, fs);
  if (!parsed.ok()) {
    GW_CHECK(parsed.status().code() != absl::StatusCode::kInternal);
    return;
  }
  (void)table.Describe();
  (void)table.Help("x", "y");
  GW_CHECK(ParseByteCount(FormatByteCount(n)) == n);
  GW_CHECK(ParseNumber(FormatNumber(d)) == d);
  // FormatDuration keeps 15 digits of a second's part or so: the same up to that.
  const auto again = ParseOptionDuration(FormatOptionDuration(t));
  GW_CHECK(again.has_value() && *again >= absl::ZeroDuration());
}

}  // namespace
}  // namespace gradwire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gradwire::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
