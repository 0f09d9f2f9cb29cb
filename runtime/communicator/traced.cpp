#include "runtime/communicator/traced.h"

#include <utility>

namespace muster {
namespace {

class TracedTransfer final : public Transfer {
 public:
  TracedTransfer(std::unique_ptr<Transfer> inner, Trace& trace, const TraceEntry& entry)
      : inner_(std::move(inner)), trace_(trace), entry_(entry) {}

  bool done() override { return inner_->done(); }
  void wait() override {
    const TraceSpan span(&trace_, entry_.kind, entry_.number, entry_.bytes);
    inner_->wait();
  }

 private:
  std::unique_ptr<Transfer> inner_;
  Trace& trace_;
  TraceEntry entry_;
};

// Of floats that come from other ranks.
std::uint64_t bytes_to(std::size_t rank, std::span<const ElementRange> ranges) {
  std::uint64_t elements = 0;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    if (r != rank) elements += ranges[r].size();
  }
  return elements * sizeof(float);
}

}  // namespace

std::unique_ptr<Transfer> TracedCommunicator::start_all_to_all(
    std::span<const float> send, std::span<const ElementRange> send_ranges,
    std::span<float> receive, std::span<const ElementRange> receive_ranges) {
  const auto number = static_cast<std::uint32_t>(started_++);
  return std::make_unique<TracedTransfer>(
      inner_.start_all_to_all(send, send_ranges, receive, receive_ranges), trace_,
      TraceEntry{0, 0, SpanKind::reduce_wait, number, bytes_to(rank(), receive_ranges)});
}

std::unique_ptr<Transfer> TracedCommunicator::start_all_gather(
    std::span<float> whole, std::span<const ElementRange> owned) {
  const auto number = static_cast<std::uint32_t>(started_++);
  return std::make_unique<TracedTransfer>(
      inner_.start_all_gather(whole, owned), trace_,
      TraceEntry{0, 0, SpanKind::gather_wait, number, bytes_to(rank(), owned)});
}

std::vector<std::string> TracedCommunicator::gather_texts(std::string_view mine) {
  const TraceSpan span(&trace_, SpanKind::numbers_wait);
  return inner_.gather_texts(mine);
}

}  // namespace muster
