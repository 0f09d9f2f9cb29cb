#include "health/active/product_bits.h"

#include <algorithm>
#include <map>
#include <optional>

namespace muster {

namespace {

// What one computed, by how often.
using Votes = std::map<std::uint64_t, int>;
using ByDevice = std::map<std::string, Votes>;

int count_of(const Votes& votes) {
  int count = 0;
  for (const auto& [bits, times] : votes) count += times;
  return count;
}

int most_of(const Votes& votes) {
  int most = 0;
  for (const auto& [bits, times] : votes) most = std::max(most, times);
  return most;
}

bool is_steady(const Votes& votes) {
  return votes.size() == 1;
}

// Each of the steady ones has one vote.
Votes votes_of_steady(const ByDevice& by_device) {
  Votes votes;
  for (const auto& [device, own] : by_device) {
    if (is_steady(own)) ++votes[own.begin()->first];
  }
  return votes;
}

std::optional<std::uint64_t> right_bits(const Votes& steady) {
  const int least = 2;  // one alone agrees with nobody
  for (const auto& [bits, votes] : steady) {
    if (votes >= least && 2 * votes > count_of(steady)) return bits;
  }
  return std::nullopt;
}

std::string times_text(int wrong, int count) {
  return std::to_string(wrong) + " of " + std::to_string(count) + " times";
}

PerformanceSample wrong_sample(const std::string& device, int wrong, const std::string& note) {
  PerformanceSample sample{corruption_metric, device, wrong, ""};
  if (wrong > 0) sample.note = note;
  return sample;
}

PerformanceSample unclear_sample(const std::string& device, const std::string& why) {
  return {corruption_metric, device, std::nullopt, why};
}

PerformanceSample judged_by(std::uint64_t right, const std::string& device, const Votes& own) {
  const int count = count_of(own);
  const auto found = own.find(right);
  const int wrong = count - (found == own.end() ? 0 : found->second);
  const std::string from = is_steady(own) ? "than the others'" : "than the others' or its own";
  return wrong_sample(device, wrong,
                      "its product has other bits " + from + " " + times_text(wrong, count));
}

// Where nobody says what is right.
PerformanceSample judged_alone(const std::string& device, const Votes& own, bool is_disputed) {
  const int count = count_of(own);
  if (!is_steady(own)) {
    const int wrong = count - most_of(own);
    return wrong_sample(device, wrong,
                        "its product has other bits than its own " + times_text(wrong, count));
  }
  if (is_disputed) return unclear_sample(device, "others compute another product: who is right?");
  if (count < 2)
    return unclear_sample(device, "it computed once: there is nothing to compare with");
  return wrong_sample(device, 0, "");
}

std::string disputing(const ByDevice& by_device) {
  std::string names;
  for (const auto& [device, own] : by_device) {
    if (!is_steady(own)) continue;
    names += (names.empty() ? "" : ", ") + (device.empty() ? std::string("the host") : device);
  }
  return names;
}

}  // namespace

std::vector<PerformanceSample> judge_product_bits(std::span<const ProductBits> all) {
  ByDevice by_device;
  for (const ProductBits& one : all) by_device[one.device][one.bits] += one.times;
  const Votes steady = votes_of_steady(by_device);
  const auto right = right_bits(steady);
  const bool is_disputed = !right && steady.size() > 1;
  std::vector<PerformanceSample> samples;
  for (const auto& [device, own] : by_device) {
    auto sample = right ? judged_by(*right, device, own) : judged_alone(device, own, is_disputed);
    // The host computes no product: it is of interest only where it is wrong.
    if (!device.empty() || sample.value.value_or(0) > 0) samples.push_back(std::move(sample));
  }
  if (is_disputed) {
    samples.insert(samples.begin(),
                   wrong_sample("", static_cast<int>(steady.size()) - 1,
                                "products with other bits, each of them the same every time, of " +
                                    disputing(by_device)));
  }
  return samples;
}

}  // namespace muster
