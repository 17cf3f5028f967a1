#include "rpc/base/metrics.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rpc/base/log_testutil.h"
#include "rpc/base/utf8.h"

namespace gradwire {
namespace {

TEST(MetricsTest, RendersTheTextFormatExactly) {
  MetricsRegistry metrics;
  metrics.GetGauge("gw_b_bytes", "Back\\slash and\nline.").Set(1.5);
  metrics.GetCounter("gw_a_total", "Calls.", {{"peer", "w\"1\\\n"}, {"kind", "call"}}).Add(3);
  metrics.GetCounter("gw_a_total", "Calls.", {{"peer", "w0"}, {"kind", "call"}}).Add();
  Histogram& h = metrics.GetHistogram("gw_c_seconds", "Time.", {0.5, 2, 3}, {{"op", "pull"}});
  for (const double v : {0.1, 0.5, 0.6, 1.75, 100.0}) h.Observe(v);
  EXPECT_EQ(metrics.Render(),
            "# HELP gw_a_total Calls.\n"
            "# TYPE gw_a_total counter\n"
            "gw_a_total{kind=\"call\",peer=\"w0\"} 1\n"
            "gw_a_total{kind=\"call\",peer=\"w\\\"1\\\\\\n\"} 3\n"
            "# HELP gw_b_bytes Back\\\\slash and\\nline.\n"
            "# TYPE gw_b_bytes gauge\n"
            "gw_b_bytes 1.5\n"
            "# HELP gw_c_seconds Time.\n"
            "# TYPE gw_c_seconds histogram\n"
            "gw_c_seconds_bucket{op=\"pull\",le=\"0.5\"} 2\n"
            "gw_c_seconds_bucket{op=\"pull\",le=\"1\"} 3\n"
            "gw_c_seconds_bucket{op=\"pull\",le=\"2\"} 4\n"
            "gw_c_seconds_bucket{op=\"pull\",le=\"+Inf\"} 5\n"
            "gw_c_seconds_sum{op=\"pull\"} 102.95\n"
            "gw_c_seconds_count{op=\"pull\"} 5\n");
}

TEST(MetricsTest, EmptyRegistryRendersNothing) { EXPECT_EQ(MetricsRegistry().Render(), ""); }

TEST(MetricsTest, NumbersReadBackExactly) {
  MetricsRegistry metrics;
  Gauge& g = metrics.GetGauge("g", "G.");
  const auto shown = [&](double v) {
    g.Set(v);
    const std::string text = metrics.Render();
    return text.substr(text.rfind("\ng ") + 3);
  };
  EXPECT_EQ(shown(0), "0\n");
  EXPECT_EQ(shown(std::numeric_limits<double>::infinity()), "+Inf\n");
  EXPECT_EQ(shown(-std::numeric_limits<double>::infinity()), "-Inf\n");
  EXPECT_EQ(shown(std::nan("")), "NaN\n");
  EXPECT_EQ(shown(1e300), "1e+300\n");
  for (const double v : {0.1, 1.0 / 3, -123456789.125, 5e-324})
    EXPECT_EQ(std::strtod(shown(v).c_str(), nullptr), v);
  g.Set(1);
  g.Add(-3);
  EXPECT_EQ(g.value(), -2);
  Counter& c = metrics.GetCounter("c_total", "C.");
  c.Add(std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(absl::StrContains(metrics.Render(), "\nc_total 18446744073709551615\n"));
}

TEST(MetricsTest, SameNameAndLabelsAreOneMetric) {
  MetricsRegistry metrics;
  Counter& a = metrics.GetCounter("n_total", "N.", {{"x", "1"}, {"y", "2"}});
  EXPECT_EQ(&a, &metrics.GetCounter("n_total", "N.", {{"y", "2"}, {"x", "1"}}));
  EXPECT_NE(&a, &metrics.GetCounter("n_total", "N.", {{"y", "1"}, {"x", "2"}}));
  EXPECT_NE(&a, &metrics.GetCounter("n_total", "N."));
}

TEST(MetricsTest, HistogramBucketsAreLogarithmicAndInclusive) {
  Histogram seconds(HistogramBuckets::Seconds());
  EXPECT_DOUBLE_EQ(seconds.bounds().front(), 1e-6);
  EXPECT_NEAR(seconds.bounds().back(), 67.1, 0.1);
  Histogram bytes(HistogramBuckets::Bytes());
  EXPECT_DOUBLE_EQ(bytes.bounds().back(), 17179869184.0);
  bytes.Observe(64);
  bytes.Observe(65);
  bytes.Observe(-1);
  bytes.Observe(1e30);
  bytes.Observe(std::nan(""));
  EXPECT_EQ(bytes.bucket_count(0), 2u);
  EXPECT_EQ(bytes.bucket_count(1), 1u);
  EXPECT_EQ(bytes.bucket_count(bytes.bounds().size()), 1u);
}

TEST(MetricsTest, MistakesAreLoggedAndCountUnseen) {
  ScopedLogCapture log;
  MetricsRegistry metrics;
  metrics.GetCounter("n_total", "N.").Add(7);
  metrics.GetGauge("n_total", "N.").Set(5);
  metrics.GetCounter("0bad name\n", "B.").Add();
  metrics.GetCounter("", "B.").Add();
  metrics.GetCounter("l_total", "L.", {{"a:b", "x"}}).Add();
  metrics.GetCounter("l2_total", "L.", {{"__a", "x"}}).Add();
  metrics.GetCounter("l3_total", "L.", {{"a", "x"}, {"a", "y"}}).Add();
  metrics.GetHistogram("h", "H.", {1, 2, 3}, {{"le", "x"}}).Observe(1);
  metrics.GetHistogram("k", "K.", {1, 2, 3}).Observe(1);
  metrics.GetHistogram("k", "K.", {1, 2, 4}).Observe(1);
  const std::string text = metrics.Render();
  EXPECT_TRUE(absl::StartsWith(text, "# HELP k K.\n"));
  EXPECT_TRUE(absl::EndsWith(text, "n_total 7\n")) << text;
  EXPECT_TRUE(absl::StrContains(text, "k_count 1\n"));
  EXPECT_EQ(log.records().size(), 8u);
  metrics.GetGauge("n_total", "N.").Set(6);
  EXPECT_EQ(log.records().size(), 8u) << "each mistake is logged once";
  for (int i = 0; i < 1000; ++i) metrics.GetCounter(absl::StrCat(i), "bad").Add();
  EXPECT_LE(log.records().size(), 101u + 8u);
}

TEST(MetricsTest, ManyLabelValuesShareTheOverflowSeries) {
  MetricsRegistry metrics({.max_series_per_family = 3});
  for (int i = 0; i < 10; ++i) {
    metrics.GetCounter("n_total", "N.", {{"peer", absl::StrCat(i)}}).Add();
  }
  EXPECT_EQ(metrics.Render(),
            "# HELP n_total N.\n# TYPE n_total counter\n"
            "n_total{peer=\"0\"} 1\nn_total{peer=\"1\"} 1\nn_total{peer=\"2\"} 1\n"
            "n_total{peer=\"overflow\"} 7\n");
}

TEST(MetricsTest, LabelValuesAreCutAndMadeUtf8) {
  MetricsRegistry metrics;
  metrics
      .GetCounter("n_total", "H\xff.",
                  {{"p", std::string("a\xff\xc3\xa9") + std::string(1000, 'x')}})
      .Add();
  const std::string text = metrics.Render();
  EXPECT_TRUE(absl::StrContains(text, "{p=\"a\xef\xbf\xbd\xc3\xa9xxx"));
  EXPECT_TRUE(absl::StrContains(text, "# HELP n_total H\xef\xbf\xbd.\n"));
  EXPECT_LT(text.size(), 400u);
}

TEST(MetricsTest, CollectorsRunBeforeRendering) {
  MetricsRegistry metrics;
  int runs = 0;
  metrics.AddCollector([&] { metrics.GetGauge("g", "G.").Set(++runs); });
  EXPECT_TRUE(absl::EndsWith(metrics.Render(), "g 1\n"));
  EXPECT_TRUE(absl::EndsWith(metrics.Render(), "g 2\n"));
}

TEST(MetricsTest, ThreadsLoseNoCount) {
  MetricsRegistry metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        metrics.GetCounter("n_total", "N.", {{"i", absl::StrCat(i % 7)}}).Add();
        metrics.GetGauge("g", "G.").Add(1);
        metrics.GetHistogram("h_seconds", "H.", HistogramBuckets::Seconds()).Observe(0.5);
        if (i % 1000 == 0) (void)metrics.Render();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  uint64_t total = 0;
  for (int i = 0; i < 7; ++i) {
    total += metrics.GetCounter("n_total", "N.", {{"i", absl::StrCat(i)}}).value();
  }
  EXPECT_EQ(total, 20'000u);
  EXPECT_EQ(metrics.GetGauge("g", "G.").value(), 20'000);
  EXPECT_TRUE(absl::StrContains(metrics.Render(), "h_seconds_sum 10000\nh_seconds_count 20000\n"));
}

TEST(Utf8Test, ReplacesExactlyWhatIsInvalid) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(ValidUtf8("plain"), "plain");
  EXPECT_EQ(ValidUtf8("\xc2\x80 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"),
            "\xc2\x80 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf");
  EXPECT_EQ(ValidUtf8("\xc0\x80"), bad + bad);                      // overlong
  EXPECT_EQ(ValidUtf8("\xe0\x9f\xbf"), bad + bad + bad);            // overlong
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), bad + bad + bad);            // surrogate
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80"), bad + bad + bad + bad);  // above U+10FFFF
  EXPECT_EQ(ValidUtf8("a\xe2\x82"), "a" + bad + bad);               // cut
  EXPECT_EQ(ValidUtf8("\x80z\xff"), bad + "z" + bad);
}

}  // namespace
}  // namespace gradwire
