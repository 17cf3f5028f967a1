// What caller and callee share: names and types of the remote functions.
#pragma once

#include <gradwire/rpc/function.h>
#include <gradwire/rpc/tensor/values.h>

#include <cstdint>
#include <string>
#include <vector>

struct Sample {
  std::vector<double> x;
  int64_t label = 0;
  GW_FIELDS(x, label);
};

inline constexpr gradwire::rpc::Function<double(std::vector<double>, std::vector<double>)> kDot{
    "demo.dot"};
inline constexpr gradwire::rpc::Function<std::string(Sample)> kDescribe{"demo.describe"};
