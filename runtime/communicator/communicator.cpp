#include "runtime/communicator/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/protocol/number_text.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

// Of many ranks so many are named.
constexpr std::size_t most_names = 8;

using Given = std::map<std::string, std::string>;

Given parsed(std::string_view text) {
  Given given;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    given.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return given;
}

std::string value_of(const Given& given, const std::string& name) {
  const auto found = given.find(name);
  return found == given.end() ? "unknown" : found->second;
}

std::string names_text(const std::vector<std::string>& names) {
  if (names.size() <= most_names) return joined(names);
  return joined(std::span(names).first(most_names)) + " and " +
         std::to_string(names.size() - most_names) + " more";
}

constexpr int warm_up_rounds = 2;

struct Size {
  const char* metric;
  std::size_t bytes;
  int rounds;  // some seconds at most, also on a slow network
};
constexpr Size latency{"collective_latency_us", 8, 200};
constexpr Size small{"collective_1mib_gb_per_s", 1 << 20, 40};
constexpr Size large{"collective_64mib_gb_per_s", 64 << 20, 5};

class Allreduce {
 public:
  Allreduce(Communicator& ranks, std::size_t bytes)
      : ranks_(ranks), values_(bytes / sizeof(float)) {
    const std::size_t size = ranks.size();
    for (std::size_t r = 0; r < size; ++r) {
      owned_.push_back({values_.size() * r / size, values_.size() * (r + 1) / size});
    }
    const std::uint64_t own = owned_[ranks.rank()].size();
    for (std::size_t r = 0; r < size; ++r) in_.push_back({r * own, (r + 1) * own});
    received_.resize(own * size);
  }

  // Every rank puts in its number from 1 on.
  double seconds_of_round() {
    std::fill(values_.begin(), values_.end(), static_cast<float>(ranks_.rank() + 1));
    ranks_.gather_texts("");
    const auto begun = std::chrono::steady_clock::now();
    ranks_.all_to_all(values_, owned_, received_, in_);
    add_up();
    ranks_.all_gather(values_, owned_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }

  bool is_right() const {
    const auto size = static_cast<float>(ranks_.size());
    const float sum = size * (size + 1) / 2;
    return std::all_of(values_.begin(), values_.end(), [&](float value) { return value == sum; });
  }

 private:
  void add_up() {
    const ElementRange own = owned_[ranks_.rank()];
    const std::span<float> sums = std::span(values_).subspan(own.lo, own.size());
    std::copy_n(received_.begin(), sums.size(), sums.begin());
    for (std::size_t r = 1; r < ranks_.size(); ++r) {
      const float* part = received_.data() + r * sums.size();
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
  }

  Communicator& ranks_;
  std::vector<float> values_;
  std::vector<float> received_;
  std::vector<ElementRange> owned_;
  std::vector<ElementRange> in_;
};

// As a line that a program reads. The text is another rank's.
std::string figure_text(double seconds, bool is_right) {
  return printed("%.9g %d", seconds, is_right ? 1 : 0);
}

AllreduceTime of_all_ranks(Communicator& ranks, double seconds, bool is_right) {
  AllreduceTime slowest{0, true};
  for (const std::string& text : ranks.gather_texts(figure_text(seconds, is_right))) {
    double theirs = 0;
    int right = 0;
    const bool is_read = std::sscanf(text.c_str(), "%lf %d", &theirs, &right) == 2;
    slowest.seconds = std::max(slowest.seconds, theirs);
    slowest.is_right = slowest.is_right && is_read && right == 1;
  }
  return slowest;
}

void print_error(const char* metric, const char* why) {
  std::printf("%s - error %s\n", metric, why);
}

void print_figure(const char* metric, double value) {
  std::printf("%s - %.6g\n", metric, value);
}

}  // namespace

Checked<std::vector<std::string>> gather_checked(Communicator& ranks,
                                                 const Checked<std::string>& mine) {
  auto texts = ranks.gather_texts(mine ? "+" + mine.value() : "-" + mine.reason());
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (texts[r].starts_with('+')) continue;
    const std::string who = texts.size() > 1 ? "rank " + std::to_string(r) + ": " : "";
    return CheckpointFault{who + texts[r].substr(1)};
  }
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

Checked<NoValue> all_done(Communicator& ranks, const Checked<NoValue>& mine) {
  Checked<std::string> vote = std::string();
  if (!mine) vote = mine.fault();
  if (const auto votes = gather_checked(ranks, vote); !votes) return votes.fault();
  return NoValue{};
}

std::string from_rank_0(Communicator& ranks, const std::string& text) {
  return ranks.gather_texts(ranks.rank() == 0 ? text : std::string()).front();
}

std::string options_difference(const std::vector<GivenOptions>& all) {
  std::vector<Given> given;
  Given every;  // name of every option that anybody has
  for (const GivenOptions& one : all) {
    given.push_back(parsed(one.text));
    every.insert(given.back().begin(), given.back().end());
  }
  std::string sentence;
  std::string others;
  for (const auto& [name, ignored] : every) {
    // In the order of the first rank that has the value.
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string value = value_of(given[i], name);
      auto group = std::ranges::find(groups, value, [](const auto& one) { return one.first; });
      if (group == groups.end()) group = groups.insert(group, {value, {}});
      group->second.push_back(all[i].name);
    }
    if (groups.size() < 2) continue;
    if (!sentence.empty()) {
      others += (others.empty() ? "--" : ", --") + name;
      continue;
    }
    sentence = "--" + name + " differs between ranks:";
    for (const auto& [value, names] : groups) {
      sentence += (sentence.ends_with(':') ? " " : "; ") + value + " on " + names_text(names);
    }
  }
  if (sentence.empty()) return sentence;
  if (!others.empty()) sentence += " (so does " + others + ")";
  return sentence + ": give all ranks the same options";
}

AllreduceTime time_allreduce(Communicator& ranks, std::size_t bytes, int rounds) {
  Allreduce allreduce(ranks, bytes);
  std::vector<double> seconds;
  for (int round = -warm_up_rounds; round < rounds; ++round) {
    const double took = allreduce.seconds_of_round();
    if (round >= 0) seconds.push_back(took);
  }
  std::sort(seconds.begin(), seconds.end());
  return of_all_ranks(ranks, seconds[seconds.size() / 2], allreduce.is_right());
}

double bus_gb_per_s(std::size_t ranks, std::size_t bytes, double seconds) {
  const auto size = static_cast<double>(ranks);
  return 2 * (size - 1) / size * static_cast<double>(bytes) / seconds / 1e9;
}

void probe_allreduce(Communicator& ranks) {
  for (const Size& size : {latency, small, large}) {
    const bool is_alone = ranks.size() < 2;
    const AllreduceTime time =
        is_alone ? AllreduceTime{} : time_allreduce(ranks, size.bytes, size.rounds);
    if (ranks.rank() != 0) continue;
    if (is_alone) {
      print_error(size.metric, "there is one rank only");
    } else if (!time.is_right) {
      print_error(size.metric, "the sums are wrong");
    } else if (size.bytes == latency.bytes) {
      print_figure(size.metric, time.seconds * 1e6);
    } else {
      print_figure(size.metric, bus_gb_per_s(ranks.size(), size.bytes, time.seconds));
    }
    std::fflush(stdout);
  }
}

}  // namespace muster
