#include "axis.hpp"

#include <cmath>

namespace sinew::draw {
namespace {

constexpr double kWithin = 1e-9;

/// 1, 2 or 5 times a power of ten: the least that is not below.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= value * (1 - kWithin)) return times * power;
  }
  return 10 * power;
}

std::vector<double> decades(double least, double most, std::initializer_list<double> times) {
  std::vector<double> values;
  for (double power = std::floor(std::log10(least)); power <= std::log10(most) + kWithin; ++power) {
    for (const double t : times) {
      const double value = t * std::pow(10, power);
      if (value >= least * (1 - kWithin) && value <= most * (1 + kWithin)) values.push_back(value);
    }
  }
  return values;
}

}  // namespace

double Axis::at(double value) const {
  if (most <= least) return from;
  const double part = logarithmic ? std::log(value / least) / std::log(most / least) : (value - least) / (most - least);
  return from + part * (to - from);
}

std::vector<double> Axis::ticks(int about) const {
  if (most <= least) return {least};
  if (logarithmic) {
    std::vector<double> values = decades(least, most, {1});
    return static_cast<int>(values.size()) * 3 <= about ? decades(least, most, {1, 2, 5}) : values;
  }
  std::vector<double> values;
  const double step = round_up((most - least) / about);
  for (double i = std::ceil(least / step - kWithin); i * step <= most + step * kWithin; ++i) values.push_back(i * step);
  return values;
}

Axis decades_around(double least, double most, double from, double to) {
  const double low = std::floor(std::log10(least) + kWithin), high = std::ceil(std::log10(most) - kWithin);
  return {std::pow(10, low), std::pow(10, high > low ? high : low + 1), from, to, true};
}

}  // namespace sinew::draw
