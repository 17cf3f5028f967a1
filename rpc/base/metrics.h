// Counters, gauges and histograms with labels, rendered as Prometheus text (format 0.0.4).
//
//   Counter& calls = metrics.GetCounter("gradwire_calls_total", "Calls sent.", {{"peer", name}});
//   calls.Add();                          // hot path: one relaxed atomic; keep the reference
//
// A MetricsRegistry is passed to whoever counts; there is no global one. Asking again for the same
// name and labels gives the same metric.
// Ownership:     the registry owns its metrics; references live as long as it does.
// Thread-safety: all methods thread-safe. Render() sees each number whole, not all at one instant;
//                a histogram's buckets, sum and count agree except for observations under way.
// Limits:        max_series_per_family (labels may name peers): beyond it the series whose label
//                values are all "overflow" counts; label values are cut at kMaxLabelValueBytes.
// Errors:        none. A name or label that the format forbids, or one name with two types, is a
//                bug that must not stop training: it is logged, and the metric isn't rendered.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "rpc/base/mutex.h"

namespace gradwire {

// The Content-Type under which Render()'s text is served.
inline constexpr absl::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr size_t kMaxLabelValueBytes = 256;

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Only grows. Names end in _total.
class alignas(64) Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  // A number by itself: publishes nothing, hence relaxed and no mutex. So in Gauge and Histogram.
  std::atomic<uint64_t> value_{0};
};

class alignas(64) Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double delta) { value_.fetch_add(delta, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Upper bounds first_bound * growth^i, i < bound_count, and one bucket above them.
struct HistogramBuckets {
  double first_bound = 1e-6;
  double growth = 2;
  int bound_count = 27;

  // 1 us to 67 s, for names that end in _seconds.
  static HistogramBuckets Seconds() { return {1e-6, 2, 27}; }
  // 64 bytes to 16 GiB, for names that end in _bytes.
  static HistogramBuckets Bytes() { return {64, 4, 15}; }
  friend bool operator==(const HistogramBuckets&, const HistogramBuckets&) = default;
};

class Histogram {
 public:
  explicit Histogram(const HistogramBuckets& buckets);

  // NaN is ignored.
  void Observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  // Observations in the bucket up to bounds()[i]; i == bounds().size() is the one above.
  uint64_t bucket_count(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_{0};
};

struct MetricsOptions {
  // Default: 1000. Series a name. Bounds memory and the size of the page when labels name peers.
  size_t max_series_per_family = 1000;
};

class MetricsRegistry {
 public:
  explicit MetricsRegistry(const MetricsOptions& options = {}) : options_(options) {}
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  Counter& GetCounter(absl::string_view name, absl::string_view help, MetricLabels labels = {});
  Gauge& GetGauge(absl::string_view name, absl::string_view help, MetricLabels labels = {});
  Histogram& GetHistogram(absl::string_view name, absl::string_view help,
                          const HistogramBuckets& buckets, MetricLabels labels = {});

  // `collect` runs at the beginning of each Render(), under no lock, and brings gauges up to date.
  // It may run at any time until the registry goes: let it hold what it reads by weak_ptr.
  void AddCollector(std::function<void()> collect);

  // All families, sorted by name, their series by labels.
  std::string Render();

 private:
  enum class Type { kCounter, kGauge, kHistogram };
  struct Series {  // one of the three
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    Type type = Type::kCounter;
    std::string help;
    HistogramBuckets buckets;
    std::map<std::string, Series> series;  // by rendered labels
  };

  static Series MakeSeries(Type type, const HistogramBuckets& buckets);
  Series& Get(Type type, absl::string_view name, absl::string_view help,
              const HistogramBuckets& buckets, MetricLabels labels);
  Series& Detached(Type type, absl::string_view name, const HistogramBuckets& buckets,
                   absl::string_view why) GW_REQUIRES(mu_);
  static void RenderSeries(const std::string& name, const std::string& labels, const Series& series,
                           std::string& out);

  const MetricsOptions options_;
  Mutex mu_;
  std::map<std::string, Family, std::less<>> families_ GW_GUARDED_BY(mu_);
  // What is counted under a name that can't be rendered; one a name and type.
  std::map<std::pair<std::string, Type>, Series> detached_ GW_GUARDED_BY(mu_);
  std::vector<std::function<void()>> collectors_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire
