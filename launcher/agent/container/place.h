// Which processes are in a container: those of its process namespace, whatever they made of their
// session, parent and environment. The holder is its process 1: with it all of them end, by the
// kernel's hand.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

class ContainerProcesses {
 public:
  ContainerProcesses() = default;  // there are none
  // Of this holder, noted in the spool for an agent that comes later.
  static Result<ContainerProcesses> of(pid_t holder, const std::string& spool,
                                       const std::string& boot_id);
  // Of an attempt whose agent died; none where its holder has ended.
  static ContainerProcesses noted(const std::string& spool, const std::string& boot_id);

  std::set<pid_t> list() const;
  // Outside, of the process with this number inside; 0: there is none.
  pid_t outside(pid_t inside) const;

 private:
  Fd namespace_;  // open, so that no later namespace has its number
  std::uint64_t number_ = 0;
};

}  // namespace muster
