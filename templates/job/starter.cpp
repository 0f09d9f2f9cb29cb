#include "templates/job/starter.h"

#include <algorithm>

#include "scheduler/model/result.h"

namespace muster {

const std::vector<Starter>& starters() {
  // Names here may have a slash; those of files have none.
  const auto of_file = [](std::string_view file) {
    const auto found = std::ranges::find(starter_texts(), file, &StarterText::name);
    check(found != starter_texts().end(), "every starter has a file in configs/starters");
    return found->text;
  };
  static const std::vector<Starter> table = {
      {"quickstart/train", "steps, checkpoints and restarts on this machine",
       of_file("quickstart-train")},
      {"pytorch", "one process for each GPU", of_file("pytorch")},
      {"huggingface", "the Hugging Face Trainer, which goes on from its checkpoints",
       of_file("huggingface")},
      {"lightning", "Lightning, with as many processes as it has to be told of",
       of_file("lightning")},
      {"accelerate", "Accelerate, without its own launcher", of_file("accelerate")},
      {"deepspeed", "DeepSpeed by its own launcher, over muster's connections",
       of_file("deepspeed")},
      {"ray", "a Ray cluster for the time of the job: head, workers, token", of_file("ray")},
      {"mpi", "one mpirun over all nodes", of_file("mpi")},
      {"shell", "a command, the smallest job", of_file("shell")},
  };
  return table;
}

}  // namespace muster
