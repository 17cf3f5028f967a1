// gradwire: the command.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/option_values.h"
#include "worker/launch/subcommands.h"

namespace gradwire::launch {
namespace {

struct Subcommand {
  const char* name;
  const char* about;
  int (*run)(const std::vector<std::string>& arguments);
};

int Version(const std::vector<std::string>&) {
  puts("gradwire " GW_VERSION);
  return 0;
}

int Ps(const std::vector<std::string>& arguments) { return BecomeRole("ps", arguments); }
int Worker(const std::vector<std::string>& arguments) { return BecomeRole("worker", arguments); }

constexpr Subcommand kSubcommands[] = {
    {"run", "Runs a job on this machine: servers and workers.", Run},
    {"ps", "Serves parameters.", Ps},
    {"worker", "Trains a job.", Worker},
    {"version", "Says the version.", Version},
};

std::string Help() {
  std::string text =
      "gradwire: trains one model in many processes.\n\nUsage: gradwire SUBCOMMAND ...\n\n";
  for (const Subcommand& one : kSubcommands) {
    absl::StrAppend(&text, "  ", one.name, std::string(10 - std::string(one.name).size(), ' '),
                    one.about, "\n");
  }
  return text + "\ngradwire SUBCOMMAND --help says more.\n";
}

int Main(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    fputs(Help().c_str(), stderr);
    return 2;
  }
  const std::string name = arguments[0];
  arguments.erase(arguments.begin());
  if (name == "--help" || name == "-h" || name == "help") {
    fputs(Help().c_str(), stdout);
    return 0;
  }
  if (name == "--version") return Version(arguments);
  std::vector<std::string> names;
  for (const Subcommand& one : kSubcommands) {
    if (name == one.name) return one.run(arguments);
    names.push_back(one.name);
  }
  const std::string nearest = NearestWord(name, names);
  const std::string hint = nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
  const std::string text = absl::StrCat("gradwire: there is no subcommand \"", EscapedString(name),
                                        "\"", hint, "\n\n", Help());
  fputs(text.c_str(), stderr);
  return 2;
}

}  // namespace
}  // namespace gradwire::launch

int main(int argc, char** argv) {
  return gradwire::launch::Main(std::vector<std::string>(argv + 1, argv + argc));
}
