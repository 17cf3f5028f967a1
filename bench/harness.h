// Measuring as ratios: product and peer alternate in one run, medians over rounds, spread shown.
//
// These machines are noisy: kernel work drifts by a factor of 2-3 between phases, so an absolute
// number means little and a ratio of two numbers from different runs nothing. A bench prints, for
// scripts/bench and for people,
//   ROW <tab> name <tab> ratio <tab> min..max of the rounds <tab> product and peer with unit
// A row that is no ratio (memory, an idle process's share of a core) has the figure itself there.
#pragma once

#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire::bench {

struct Settings {
  int rounds = 5;
  bool quick = false;  // a moment: that it runs, not what it says
  std::string only;    // rows whose names contain this
};

inline Settings ParseSettings(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--quick") {
      settings.quick = true;
      settings.rounds = 1;
    } else if (argument.substr(0, 9) == "--rounds=") {
      settings.rounds = std::max(1, std::atoi(argument.data() + 9));
    } else if (argument.substr(0, 7) == "--only=") {
      settings.only = std::string(argument.substr(7));
    } else if (argument == "--help") {
      std::printf("usage: %s [--quick] [--rounds=N] [--only=PART OF A ROW'S NAME]\n", argv[0]);
      std::exit(0);
    }
  }
  return settings;
}

inline void PrintMachine() {
  std::string model = "unknown", line, load;
  std::ifstream cpuinfo("/proc/cpuinfo");
  while (std::getline(cpuinfo, line)) {
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  std::ifstream loadavg("/proc/loadavg");
  std::getline(loadavg, load);
  utsname system;
  uname(&system);
  std::printf("machine: %u x %s, %s %s; load %s\n", std::thread::hardware_concurrency(),
              model.c_str(), system.sysname, system.release, load.c_str());
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Runs product and peer alternately and prints the row. Both return the same kind of number.
inline double Compare(const Settings& settings, const char* name, const char* unit,
                      const std::function<double()>& product, const std::function<double()>& peer) {
  if (absl::string_view(name).find(settings.only) == absl::string_view::npos) return 0;
  std::vector<double> ratios, products, peers;
  for (int round = 0; round < settings.rounds; ++round) {
    // The order changes every round, so that a drift within it favours nobody.
    double p = 0, q = 0;
    if (round % 2 == 0) {
      p = product();
      q = peer();
    } else {
      q = peer();
      p = product();
    }
    products.push_back(p);
    peers.push_back(q);
    ratios.push_back(q > 0 ? p / q : 0);
  }
  const double ratio = Median(ratios);
  std::printf("ROW\t%s\t%.3f\t%.3f..%.3f\tours %.4g %s, peer %.4g %s\n", name, ratio,
              *std::min_element(ratios.begin(), ratios.end()),
              *std::max_element(ratios.begin(), ratios.end()), Median(products), unit,
              Median(peers), unit);
  std::fflush(stdout);
  return ratio;
}

// Prints a row that is a figure by itself, measured once a round.
inline double Report(const Settings& settings, const char* name, const char* unit,
                     const std::function<double()>& measure) {
  if (absl::string_view(name).find(settings.only) == absl::string_view::npos) return 0;
  std::vector<double> values;
  for (int round = 0; round < settings.rounds; ++round) values.push_back(measure());
  const double value = Median(values);
  std::printf("ROW\t%s\t%.3f\t%.3f..%.3f\t%.4g %s\n", name, value,
              *std::min_element(values.begin(), values.end()),
              *std::max_element(values.begin(), values.end()), value, unit);
  std::fflush(stdout);
  return value;
}

}  // namespace gradwire::bench
