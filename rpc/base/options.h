// Options of a program: one table, filled from flags, the environment and a file, that also makes
// the --help text.
//
//   OptionTable options;
//   options.Group("Network");
//   options.Add({.name = "listen", .unit = "host:port", .help = "Where to listen."}, &listen);
//   options.Add({.name = "window", .help = "How long ..."}, &window, absl::Seconds(1),
//   absl::Hours(1)); GW_ASSIGN_OR_RETURN(auto parsed, options.Parse(arguments,
//   ProcessEnvironment(), fs)); if (parsed.help) puts(options.Help("ps", "Serves ...").c_str());
//
// Precedence:    --name=value or --name value; then the environment (GRADWIRE_NAME, or the row's
//                env); then a line "name = value" of the file that --config names; then what the
//                target held when the row was added. Every source that speaks is checked, also
//                where a stronger one decides.
// Syntax:        a bool flag takes its value by = alone (--verbose is true); "--" ends the flags; a
//                list is separated by commas and grows with each repetition in one source; any
//                other flag given twice: the last wins on the command line, an error in a file.
//                File lines that begin with # are comments.
// Errors:        INVALID_ARGUMENT names the option, the value, what is allowed and where it came
//                from (flag, environment name, file:line); an unknown name comes with the nearest
//                known one. The targets then hold a mixture: don't go on.
// Limits:        kMaxConfigFileBytes. Values are shown escaped and cut.
// Thread-safety: none; made and parsed by one thread, at the start.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/base/fs.h"
#include "rpc/base/option_values.h"

namespace gradwire {

inline constexpr size_t kMaxConfigFileBytes = size_t{1} << 20;

// One line of the table, without its target.
struct OptionRow {
  std::string name = {};  // [a-z0-9-], as in --name
  std::string unit = {};  // what a value is, shown as --name=<unit>; by default the type
  std::string help = {};  // whole sentences
  std::string env = {};   // environment name; by default GRADWIRE_ and the name in capitals
};

// What the environment says to a name, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

struct ParsedArguments {
  bool help = false;  // --help or -h was given; nothing else was checked
  std::vector<std::string> positional;
};

class OptionTable {
 public:
  OptionTable();
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  // Rows added from here on appear under `title` in the help text.
  void Group(std::string title);

  // `target` holds the default and must outlive the table. Bounds are inclusive.
  void Add(OptionRow row, bool* target);
  void Add(OptionRow row, std::string* target);
  void Add(OptionRow row, std::vector<std::string>* target);
  void Add(OptionRow row, int64_t* target, int64_t min = std::numeric_limits<int64_t>::min(),
           int64_t max = std::numeric_limits<int64_t>::max());
  void Add(OptionRow row, int* target, int min = std::numeric_limits<int>::min(),
           int max = std::numeric_limits<int>::max());
  void Add(OptionRow row, size_t* target, size_t min = 0,
           size_t max = static_cast<size_t>(std::numeric_limits<int64_t>::max()));
  void Add(OptionRow row, double* target, double min = std::numeric_limits<double>::lowest(),
           double max = std::numeric_limits<double>::max());
  void Add(OptionRow row, absl::Duration* target, absl::Duration min = absl::ZeroDuration(),
           absl::Duration max = absl::InfiniteDuration());
  void Add(OptionRow row, ByteCount* target, ByteCount min = {},
           ByteCount max = {std::numeric_limits<uint64_t>::max()});
  // One of several words, each standing for a value of E.
  template <class E>
  void AddChoice(OptionRow row, E* target, std::vector<std::pair<std::string, E>> choices);

  // `arguments` without the program's name.
  absl::StatusOr<ParsedArguments> Parse(const std::vector<std::string>& arguments,
                                        const Environment& environment, FileSystem& fs);

  // The text of --help, at most 100 columns wide.
  std::string Help(absl::string_view program, absl::string_view about) const;

  // After Parse: "name = value  # where it came from", a line an option, in the table's order.
  std::string Describe() const;

 private:
  struct Entry {
    OptionRow row;
    std::string group;
    std::string type = {};    // for the help text: "duration"
    std::string syntax = {};  // what a value may look like
    std::string bounds = {};  // "from 1 to 9", or empty
    std::string default_text = {};
    std::string origin = "default";
    bool is_bool = false;
    bool is_list = false;
    // Sets the target; false when the text is no allowed value. `first`: of this source.
    std::function<bool(absl::string_view text, bool first)> set;
    std::function<std::string()> show;
  };
  // One value that some source gave.
  struct Given {
    size_t index;
    std::string text;
    std::string origin;
  };

  // An integer of any width, shown as unbounded from `lowest` to `highest`.
  template <class T>
  void AddInteger(OptionRow row, T* target, T min, T max, T lowest, T highest);
  void Insert(OptionRow row, Entry entry);
  std::optional<size_t> Find(absl::string_view name) const;
  absl::Status Unknown(absl::string_view shown, absl::string_view name,
                       absl::string_view origin) const;
  absl::StatusOr<std::vector<Given>> FromFlags(const std::vector<std::string>& arguments,
                                               ParsedArguments& parsed) const;
  absl::StatusOr<std::vector<Given>> FromFile(const std::string& path, FileSystem& fs) const;
  absl::Status Apply(const std::vector<Given>& values);

  std::vector<Entry> entries_;
  std::string group_;
  std::string config_path_;
  absl::Status declaration_error_;
};

template <class E>
void OptionTable::AddChoice(OptionRow row, E* target,
                            std::vector<std::pair<std::string, E>> choices) {
  Entry entry;
  std::string words;
  for (const auto& [word, value] : choices) words += (words.empty() ? "" : "|") + word;
  entry.type = words;
  entry.syntax = "one of " + words;
  row.unit.clear();  // the words say it
  entry.set = [target, choices](absl::string_view text, bool) {
    for (const auto& [word, value] : choices) {
      if (word != text) continue;
      *target = value;
      return true;
    }
    return false;
  };
  entry.show = [target, choices = std::move(choices)] {
    for (const auto& [word, value] : choices) {
      if (value == *target) return word;
    }
    return std::string();
  };
  Insert(std::move(row), std::move(entry));
}

}  // namespace gradwire
