// The Transport of a controller with large targets whose nodes need no login: above
// ConnectSettings::fan_out_above nodes it reaches some directly and the others through these, in a
// tree of relays. Nodes over ssh are all reached directly. Everything above sees Links as ever. A
// node that cannot be reached through its parent is tried directly once before it counts as failed;
// when a relay is lost, the nodes behind it are reached anew, each by whatever way there is then.
// One thread.
//
//   node: out -> waiting -> connecting (directly or through a parent) -> up
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/os/timers.h"
#include "launcher/transport/link/transport.h"

namespace muster {

class FanOutTree;

class FanOut final : public Transport {
 public:
  using Note = std::function<void(const std::string& sentence)>;  // for the controller's log

  FanOut(Timers& timers, std::unique_ptr<Transport> direct, Note note);
  ~FanOut() override;

  void connect(const NodeAddress& node, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) override;

 private:
  Timers& timers_;
  std::unique_ptr<Transport> direct_;
  Note note_;
  std::map<std::string, std::shared_ptr<FanOutTree>> trees_;  // by compute target
};

}  // namespace muster
