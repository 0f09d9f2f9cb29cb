// What a measurement is printed as: `name value unit goal`, for scripts/measure.sh.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace muster {

inline void print_figure(const std::string& name, double value, const char* unit,
                         const char* goal) {
  std::printf("%s %.4g %s %s\n", name.c_str(), value, unit, goal);
  std::fflush(stdout);
}

inline double seconds_since(std::chrono::system_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::system_clock::now() - begin).count();
}

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  double worst() const { return *std::ranges::max_element(values_); }
  double least() const { return *std::ranges::min_element(values_); }
  double median() const {
    std::vector<double> sorted = values_;
    std::ranges::sort(sorted);
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 != 0 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  // The goal is that of the worst.
  void print(const std::string& name, const char* unit, const char* goal) const {
    print_figure(name + "_median", median(), unit, "-");
    print_figure(name + "_worst", worst(), unit, goal);
  }

 private:
  std::vector<double> values_;
};

}  // namespace muster
