// Who may copy the binary to a node now. Nodes often share one home directory, so the first copy
// goes alone and the others look again before they send; with private homes the rest then goes in
// parallel; so it does when the first copy fails. One thread; `granted` comes from the io_context.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "scheduler/model/result.h"

namespace boost::asio {
class io_context;
}

namespace muster {

// The file's bytes, shared by all who are sending it now.
using Binary = std::shared_ptr<const std::string>;

class PushGate : public std::enable_shared_from_this<PushGate> {
 public:
  explicit PushGate(boost::asio::io_context& io) : io_(io) {}

  class Pass {
   public:
    Pass(std::shared_ptr<PushGate> gate, std::string build)
        : gate_(std::move(gate)), build_(std::move(build)) {}
    Pass(const Pass&) = delete;
    ~Pass() { gate_->leave(build_); }
    void succeeded();  // the file is in place on this pass's node

   private:
    std::shared_ptr<PushGate> gate_;
    std::string build_;
  };

  // `look_again`: others have copied meanwhile, the node may have it through a shared directory.
  using Granted = std::function<void(std::shared_ptr<Pass>, bool look_again)>;
  void enter(const std::string& build, Granted granted);

  Result<Binary> read(const std::string& path);

 private:
  struct Build {
    int inside = 0;
    bool copied_once = false;
    bool failed_once = false;  // one sick node must not hold up the others one by one
    std::deque<Granted> waiting;
  };

  static int limit(const Build& build);
  void leave(const std::string& build);
  void grant(const std::string& build, Granted granted, bool look_again);

  boost::asio::io_context& io_;
  std::map<std::string, Build> builds_;
  std::map<std::string, std::weak_ptr<const std::string>> files_;
};

}  // namespace muster
