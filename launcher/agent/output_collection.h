// CollectOutputs: the files below outputs/ and logs/ of a job, sent piece by piece as the line has
// room. Owned by Agent. A lost line ends it; the controller asks again.
#pragma once

#include <map>
#include <memory>

#include "launcher/agent/attempt/attempt_layout.h"
#include "launcher/agent/node/controller_line.h"

namespace muster {

class CollectReader;

class OutputCollection {
 public:
  explicit OutputCollection(ControllerLine& line);
  ~OutputCollection();
  void begin(const AttemptKey& key, const AttemptLayout& layout);
  void pump();
  void cancel_all();

 private:
  ControllerLine& line_;
  std::map<AttemptKey, std::unique_ptr<CollectReader>> readers_;
};

}  // namespace muster
