#include "launcher/os/wait_status.h"

#include <sys/wait.h>

namespace muster {

ExitStatus exit_status_of(int wait_status) {
  ExitStatus status;
  if (WIFSIGNALED(wait_status)) {
    status.signal = WTERMSIG(wait_status);
    status.core_dumped = WCOREDUMP(wait_status);
  } else {
    status.code = WEXITSTATUS(wait_status);
  }
  return status;
}

}  // namespace muster
