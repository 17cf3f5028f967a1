#include "rpc/base/options.h"

#include <stdlib.h>

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace {

constexpr absl::string_view kCommandLine = "the command line";

bool IsOptionName(absl::string_view name) {
  return !name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
  });
}

std::string EnvironmentName(absl::string_view name) {
  return absl::StrCat("GRADWIRE_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

// "from 1 to 10"; empty without bounds.
template <class T, class Format>
std::string Bounds(T min, T max, T lowest, T highest, Format format) {
  if (min != lowest && max != highest)
    return absl::StrCat("from ", format(min), " to ", format(max));
  if (min != lowest) return absl::StrCat("at least ", format(min));
  if (max != highest) return absl::StrCat("at most ", format(max));
  return "";
}

template <class T, class Parse>
auto BoundedSetter(T* target, T min, T max, Parse parse) {
  return [=](absl::string_view text, bool) {
    const std::optional<T> value = parse(text);
    if (!value || *value < min || *value > max) return false;
    *target = *value;
    return true;
  };
}

std::string FormatInteger(int64_t value) { return absl::StrCat(value); }

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = ::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

OptionTable::OptionTable() {
  Group("General");
  Add({.name = "config",
       .unit = "file",
       .help = "Reads options from a file of lines \"name = value\". Flags and the environment win "
               "over it."},
      &config_path_);
}

void OptionTable::Group(std::string title) { group_ = std::move(title); }

void OptionTable::Insert(OptionRow row, Entry entry) {
  if (!IsOptionName(row.name) || row.name == "help" || Find(row.name)) {
    declaration_error_.Update(absl::InternalError(
        absl::StrCat("the option --", row.name, " is declared twice, or its name is not allowed")));
    return;
  }
  if (row.env.empty()) row.env = EnvironmentName(row.name);
  if (!row.unit.empty()) entry.type = row.unit;
  entry.row = std::move(row);
  entry.group = group_;
  entry.default_text = entry.show();
  entries_.push_back(std::move(entry));
}

void OptionTable::Add(OptionRow row, bool* target) {
  Entry entry;
  entry.is_bool = true;
  entry.syntax = std::string(kBoolSyntax);
  entry.set = [target](absl::string_view text, bool) {
    const auto value = ParseBool(text);
    if (value) *target = *value;
    return value.has_value();
  };
  entry.show = [target] { return std::string(*target ? "true" : "false"); };
  Insert(std::move(row), std::move(entry));
}

void OptionTable::Add(OptionRow row, std::string* target) {
  Entry entry;
  entry.type = "text";
  entry.set = [target](absl::string_view text, bool) {
    *target = std::string(text);
    return true;
  };
  entry.show = [target] { return *target; };
  Insert(std::move(row), std::move(entry));
}

void OptionTable::Add(OptionRow row, std::vector<std::string>* target) {
  Entry entry;
  entry.is_list = true;
  entry.type = "a,b,...";
  entry.set = [target](absl::string_view text, bool first) {
    if (first) target->clear();
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      const absl::string_view word = absl::StripAsciiWhitespace(part);
      if (!word.empty()) target->emplace_back(word);
    }
    return true;
  };
  entry.show = [target] { return absl::StrJoin(*target, ","); };
  Insert(std::move(row), std::move(entry));
}

template <class T>
void OptionTable::AddInteger(OptionRow row, T* target, T min, T max, T lowest, T highest) {
  Entry entry;
  entry.type = "integer";
  entry.syntax = std::string(kIntegerSyntax);
  const auto wide = [](T value) { return static_cast<int64_t>(value); };
  entry.bounds = Bounds(wide(min), wide(max), wide(lowest), wide(highest), FormatInteger);
  entry.set = [=](absl::string_view text, bool) {
    const std::optional<int64_t> value = ParseInteger(text);
    if (!value.has_value() || *value < wide(min) || *value > wide(max)) return false;
    *target = static_cast<T>(*value);
    return true;
  };
  entry.show = [=] { return FormatInteger(wide(*target)); };
  Insert(std::move(row), std::move(entry));
}

void OptionTable::Add(OptionRow row, int64_t* target, int64_t min, int64_t max) {
  using Limits = std::numeric_limits<int64_t>;
  AddInteger(std::move(row), target, min, max, Limits::min(), Limits::max());
}

void OptionTable::Add(OptionRow row, int* target, int min, int max) {
  using Limits = std::numeric_limits<int>;
  AddInteger(std::move(row), target, min, max, Limits::min(), Limits::max());
}

void OptionTable::Add(OptionRow row, size_t* target, size_t min, size_t max) {
  AddInteger(std::move(row), target, min, max, size_t{0},
             static_cast<size_t>(std::numeric_limits<int64_t>::max()));
}

void OptionTable::Add(OptionRow row, double* target, double min, double max) {
  using Limits = std::numeric_limits<double>;
  Entry entry;
  entry.type = "number";
  entry.syntax = std::string(kNumberSyntax);
  entry.bounds = Bounds(min, max, Limits::lowest(), Limits::max(), FormatNumber);
  entry.set = BoundedSetter(target, min, max, ParseNumber);
  entry.show = [target] { return FormatNumber(*target); };
  Insert(std::move(row), std::move(entry));
}

void OptionTable::Add(OptionRow row, absl::Duration* target, absl::Duration min,
                      absl::Duration max) {
  Entry entry;
  entry.type = "duration";
  entry.syntax = std::string(kDurationSyntax);
  if (min == absl::ZeroDuration()) absl::StrAppend(&entry.syntax, ", not negative");
  entry.bounds =
      Bounds(min, max, absl::ZeroDuration(), absl::InfiniteDuration(), FormatOptionDuration);
  entry.set = BoundedSetter(target, min, max, ParseOptionDuration);
  entry.show = [target] { return FormatOptionDuration(*target); };
  Insert(std::move(row), std::move(entry));
}

void OptionTable::Add(OptionRow row, ByteCount* target, ByteCount min, ByteCount max) {
  Entry entry;
  entry.type = "bytes";
  entry.syntax = std::string(kByteCountSyntax);
  entry.bounds = Bounds(min, max, ByteCount{}, ByteCount{std::numeric_limits<uint64_t>::max()},
                        FormatByteCount);
  entry.set = BoundedSetter(target, min, max, ParseByteCount);
  entry.show = [target] { return FormatByteCount(*target); };
  Insert(std::move(row), std::move(entry));
}

std::optional<size_t> OptionTable::Find(absl::string_view name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].row.name == name) return i;
  }
  return std::nullopt;
}

absl::Status OptionTable::Unknown(absl::string_view shown, absl::string_view name,
                                  absl::string_view origin) const {
  std::vector<absl::string_view> names = {"help"};
  for (const Entry& entry : entries_) names.push_back(entry.row.name);
  const std::string nearest = NearestWord(name, names);
  const absl::string_view dashes = origin == kCommandLine ? "--" : "";
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", EscapedString(shown), " (from ", origin, ")",
                   nearest.empty() ? std::string("; --help lists them all")
                                   : absl::StrCat("; did you mean ", dashes, nearest, "?")));
}

absl::StatusOr<std::vector<OptionTable::Given>> OptionTable::FromFlags(
    const std::vector<std::string>& arguments, ParsedArguments& parsed) const {
  std::vector<Given> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (argument == "--") {
      parsed.positional.insert(parsed.positional.end(),
                               arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                               arguments.end());
      break;
    }
    if (argument == "--help" || argument == "-h") {
      parsed.help = true;
      return values;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      parsed.positional.emplace_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const absl::string_view shown = argument.substr(0, equals);
    const absl::string_view name = shown.substr(absl::StartsWith(shown, "--") ? 2 : 1);
    const auto index = Find(name);
    if (!index || !absl::StartsWith(shown, "--")) return Unknown(shown, name, kCommandLine);
    const std::string origin = absl::StrCat("the flag --", name);
    if (equals != absl::string_view::npos) {
      values.push_back({*index, std::string(argument.substr(equals + 1)), origin});
    } else if (entries_[*index].is_bool) {
      values.push_back({*index, "true", origin});
    } else if (i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--")) {
      values.push_back({*index, arguments[++i], origin});
    } else {
      return absl::InvalidArgumentError(absl::StrCat("the flag --", name, " needs a value: --",
                                                     name, "=<", entries_[*index].type, ">"));
    }
  }
  return values;
}

absl::StatusOr<std::vector<OptionTable::Given>> OptionTable::FromFile(const std::string& path,
                                                                      FileSystem& fs) const {
  GW_ASSIGN_OR_RETURN(const std::string contents, fs.ReadAll(path, kMaxConfigFileBytes),
                      _ << "reading the file of --config");
  std::vector<Given> values;
  std::set<size_t> seen;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(contents, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const std::string origin = absl::StrCat(EscapedString(path), ":", line_number);
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ": \"", EscapedString(line), "\" is not of the form name = value"));
    }
    const absl::string_view name = absl::StripAsciiWhitespace(line.substr(0, equals));
    const auto index = Find(name);
    if (!index) return Unknown(name, name, origin);
    if (name == "config") {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ": a file can't name another one with config"));
    }
    if (!seen.insert(*index).second && !entries_[*index].is_list) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": ", name, " is given twice"));
    }
    values.push_back(
        {*index, std::string(absl::StripAsciiWhitespace(line.substr(equals + 1))), origin});
  }
  return values;
}

absl::Status OptionTable::Apply(const std::vector<Given>& values) {
  std::set<size_t> seen;
  for (const Given& given : values) {
    Entry& entry = entries_[given.index];
    const bool first = seen.insert(given.index).second;
    if (!entry.set(given.text, first)) {
      return absl::InvalidArgumentError(
          absl::StrCat("option ", entry.row.name, ": \"", EscapedString(given.text), "\" (from ",
                       given.origin, ") is not allowed; allowed is ", entry.syntax,
                       entry.bounds.empty() ? "" : ", ", entry.bounds));
    }
    entry.origin = given.origin;
  }
  return absl::OkStatus();
}

absl::StatusOr<ParsedArguments> OptionTable::Parse(const std::vector<std::string>& arguments,
                                                   const Environment& environment, FileSystem& fs) {
  GW_RETURN_IF_ERROR(declaration_error_);
  ParsedArguments parsed;
  GW_ASSIGN_OR_RETURN(const std::vector<Given> flags, FromFlags(arguments, parsed));
  if (parsed.help) return parsed;

  std::vector<Given> from_environment;
  std::string config;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string& name = entries_[i].row.env;
    if (auto value = environment(name)) {
      if (entries_[i].row.name == "config") config = *value;
      from_environment.push_back({i, *std::move(value), absl::StrCat("the environment's ", name)});
    }
  }
  for (const Given& flag : flags) {
    if (entries_[flag.index].row.name == "config") config = flag.text;
  }
  if (!config.empty()) {
    GW_ASSIGN_OR_RETURN(const std::vector<Given> from_file, FromFile(config, fs));
    GW_RETURN_IF_ERROR(Apply(from_file));
  }
  GW_RETURN_IF_ERROR(Apply(from_environment));
  GW_RETURN_IF_ERROR(Apply(flags));
  return parsed;
}

std::string OptionTable::Describe() const {
  std::string out;
  for (const Entry& entry : entries_) {
    absl::StrAppend(&out, entry.row.name, " = ", EscapedString(entry.show()), "  # ", entry.origin,
                    "\n");
  }
  return out;
}

}  // namespace gradwire
