#include "rpc/base/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/utf8.h"

namespace gradwire {
namespace {

// Names that can't be rendered are few (bugs); more than this share one metric.
constexpr size_t kMaxDetachedCount = 100;

bool IsName(absl::string_view name, bool colons_allowed) {
  const auto is_first = [&](char c) {
    return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_' ||
           (c == ':' && colons_allowed);
  };
  if (name.empty() || !is_first(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return is_first(c) || absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// Help texts escape backslash and line feed, label values the quote as well.
void AppendEscaped(std::string& out, absl::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

// The shortest text that reads back as the same double.
std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

// a="b",c="d"
std::string RenderLabels(const MetricLabels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    absl::StrAppend(&out, out.empty() ? "" : ",", name, "=\"");
    AppendEscaped(out, value, /*quotes=*/true);
    out += '"';
  }
  return out;
}

// Why `labels`, sorted, can't be used; empty when they can.
absl::string_view LabelProblem(const MetricLabels& labels, bool histogram) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string& name = labels[i].first;
    if (!IsName(name, /*colons_allowed=*/false))
      return "a label's name is not [a-zA-Z_][a-zA-Z0-9_]*";
    if (name.starts_with("__")) return "label names that begin with __ are reserved";
    if (histogram && name == "le") return "the label le belongs to the buckets";
    if (i > 0 && labels[i - 1].first == name) return "a label is given twice";
  }
  return "";
}

void AppendLine(std::string& out, absl::string_view name, absl::string_view suffix,
                absl::string_view labels, absl::string_view value) {
  absl::StrAppend(&out, name, suffix);
  if (!labels.empty()) absl::StrAppend(&out, "{", labels, "}");
  absl::StrAppend(&out, " ", value, "\n");
}

}  // namespace

Histogram::Histogram(const HistogramBuckets& buckets) {
  double bound = buckets.first_bound;
  for (int i = 0; i < buckets.bound_count; ++i, bound *= buckets.growth) bounds_.push_back(bound);
  counts_ = std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1);
}

void Histogram::Observe(double value) {
  if (std::isnan(value)) return;
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  sum_.fetch_add(value, std::memory_order_relaxed);
  counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
}

Counter& MetricsRegistry::GetCounter(absl::string_view name, absl::string_view help,
                                     MetricLabels labels) {
  return *Get(Type::kCounter, name, help, {}, std::move(labels)).counter;
}

Gauge& MetricsRegistry::GetGauge(absl::string_view name, absl::string_view help,
                                 MetricLabels labels) {
  return *Get(Type::kGauge, name, help, {}, std::move(labels)).gauge;
}

Histogram& MetricsRegistry::GetHistogram(absl::string_view name, absl::string_view help,
                                         const HistogramBuckets& buckets, MetricLabels labels) {
  return *Get(Type::kHistogram, name, help, buckets, std::move(labels)).histogram;
}

MetricsRegistry::Series MetricsRegistry::MakeSeries(Type type, const HistogramBuckets& buckets) {
  Series series;
  switch (type) {
    case Type::kCounter:
      series.counter = std::make_unique<Counter>();
      break;
    case Type::kGauge:
      series.gauge = std::make_unique<Gauge>();
      break;
    case Type::kHistogram:
      series.histogram = std::make_unique<Histogram>(buckets);
      break;
  }
  return series;
}

MetricsRegistry::Series& MetricsRegistry::Get(Type type, absl::string_view name,
                                              absl::string_view help,
                                              const HistogramBuckets& buckets,
                                              MetricLabels labels) {
  std::sort(labels.begin(), labels.end());
  for (auto& [label, value] : labels) {
    value = ValidUtf8(absl::string_view(value).substr(0, kMaxLabelValueBytes));
  }
  MutexLock lock(mu_);
  if (!IsName(name, /*colons_allowed=*/true)) {
    return Detached(type, name, buckets, "the name is not [a-zA-Z_:][a-zA-Z0-9_:]*");
  }
  const absl::string_view problem = LabelProblem(labels, type == Type::kHistogram);
  if (!problem.empty()) return Detached(type, name, buckets, problem);

  auto found = families_.find(name);
  if (found == families_.end()) {
    Family family{type, ValidUtf8(help), buckets, {}};
    found = families_.emplace(std::string(name), std::move(family)).first;
  }
  Family& family = found->second;
  if (family.type != type) return Detached(type, name, buckets, "the name has another type");
  if (type == Type::kHistogram && !(family.buckets == buckets)) {
    return Detached(type, name, buckets, "the name has other buckets");
  }
  std::string key = RenderLabels(labels);
  if (!family.series.contains(key) && family.series.size() >= options_.max_series_per_family) {
    for (auto& [label, value] : labels) value = "overflow";
    key = RenderLabels(labels);
  }
  auto [entry, added] = family.series.try_emplace(std::move(key));
  if (added) entry->second = MakeSeries(type, buckets);
  return entry->second;
}

MetricsRegistry::Series& MetricsRegistry::Detached(Type type, absl::string_view name,
                                                   const HistogramBuckets& buckets,
                                                   absl::string_view why) {
  std::string key(name.substr(0, kMaxLabelValueBytes));
  if (detached_.size() >= kMaxDetachedCount && !detached_.contains({key, type})) key.clear();
  auto [entry, added] = detached_.try_emplace({std::move(key), type});
  if (added) {
    entry->second = MakeSeries(type, buckets);
    GW_LOG(ERROR) << "a metric is not rendered" << Kv("name", Escaped(name)) << Kv("why", why);
  }
  return entry->second;
}

void MetricsRegistry::AddCollector(std::function<void()> collect) {
  MutexLock lock(mu_);
  collectors_.push_back(std::move(collect));
}

void MetricsRegistry::RenderSeries(const std::string& name, const std::string& labels,
                                   const Series& series, std::string& out) {
  if (series.counter != nullptr) {
    AppendLine(out, name, "", labels, absl::StrCat(series.counter->value()));
    return;
  }
  if (series.gauge != nullptr) {
    AppendLine(out, name, "", labels, Number(series.gauge->value()));
    return;
  }
  const Histogram& histogram = *series.histogram;
  const std::string before_le = labels.empty() ? "" : absl::StrCat(labels, ",");
  uint64_t count = 0;
  for (size_t i = 0; i <= histogram.bounds().size(); ++i) {
    count += histogram.bucket_count(i);
    const std::string le =
        i < histogram.bounds().size() ? Number(histogram.bounds()[i]) : std::string("+Inf");
    AppendLine(out, name, "_bucket", absl::StrCat(before_le, "le=\"", le, "\""),
               absl::StrCat(count));
  }
  AppendLine(out, name, "_sum", labels, Number(histogram.sum()));
  AppendLine(out, name, "_count", labels, absl::StrCat(count));
}

std::string MetricsRegistry::Render() {
  std::vector<std::function<void()>> collectors;
  {
    MutexLock lock(mu_);
    collectors = collectors_;
  }
  for (const auto& collect : collectors) collect();
  std::string out;
  MutexLock lock(mu_);
  for (const auto& [name, family] : families_) {
    absl::StrAppend(&out, "# HELP ", name, " ");
    AppendEscaped(out, family.help, /*quotes=*/false);
    absl::StrAppend(&out, "\n# TYPE ", name,
                    family.type == Type::kCounter ? " counter\n"
                    : family.type == Type::kGauge ? " gauge\n"
                                                  : " histogram\n");
    for (const auto& [labels, series] : family.series) RenderSeries(name, labels, series, out);
  }
  return out;
}

}  // namespace gradwire
