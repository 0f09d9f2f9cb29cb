// A communicator that writes down how long this rank waited in it, transfer by transfer, and is
// another one otherwise.
#pragma once

#include "runtime/communicator/communicator.h"
#include "runtime/report/trace.h"

namespace muster {

class TracedCommunicator final : public Communicator {
 public:
  // Both outlive this object and its transfers.
  TracedCommunicator(Communicator& inner, Trace& trace) : inner_(inner), trace_(trace) {}

  // Transfers are counted from here.
  void begin_step() { started_ = 0; }

  std::size_t rank() const override { return inner_.rank(); }
  std::size_t size() const override { return inner_.size(); }
  std::unique_ptr<Transfer> start_all_to_all(std::span<const float> send,
                                             std::span<const ElementRange> send_ranges,
                                             std::span<float> receive,
                                             std::span<const ElementRange> receive_ranges) override;
  std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                             std::span<const ElementRange> owned) override;
  std::vector<std::string> gather_texts(std::string_view mine) override;
  void broadcast(std::span<char> bytes, std::size_t root) override {
    inner_.broadcast(bytes, root);
  }
  void abort(int exit_code) override { inner_.abort(exit_code); }

 private:
  Communicator& inner_;
  Trace& trace_;
  std::uint64_t started_ = 0;  // in this step
};

}  // namespace muster
