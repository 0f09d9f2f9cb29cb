#include "runtime/communicator/communicator.h"

#include <algorithm>
#include <cstdlib>

namespace muster {
namespace {

class Finished final : public Transfer {
 public:
  bool done() override { return true; }
  void wait() override {}
};

class SingleCommunicator final : public Communicator {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }

  std::unique_ptr<Transfer> start_all_to_all(
      std::span<const float> send, std::span<const ElementRange> send_ranges,
      std::span<float> receive, std::span<const ElementRange> receive_ranges) override {
    const auto part = send.subspan(send_ranges[0].lo, send_ranges[0].size());
    std::copy(part.begin(), part.end(), receive.begin() + receive_ranges[0].lo);
    return std::make_unique<Finished>();
  }

  std::unique_ptr<Transfer> start_all_gather(std::span<float>,
                                             std::span<const ElementRange>) override {
    return std::make_unique<Finished>();
  }

  std::vector<std::string> gather_texts(std::string_view mine) override {
    return {std::string(mine)};
  }

  void broadcast(std::span<char>, std::size_t) override {}

  void abort(int exit_code) override { std::_Exit(exit_code); }
};

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

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace muster
