#include <algorithm>
#include <cstdlib>

#include "runtime/communicator/communicator.h"

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

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace muster
