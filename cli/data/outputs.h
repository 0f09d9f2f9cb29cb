// What becomes of a job's outputs once they are collected on this machine: copied to the stores
// that the job names, registered as data by the names that it gives.
#pragma once

#include <span>
#include <string>

#include "launcher/controller/store/home.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/result.h"

namespace muster {

// `registers`: the job has succeeded. Done twice, it changes nothing.
Status finish_outputs(const Home& home, const JobId& job, bool registers);

// The controller's child that does it, and looks whether the data of `streamed` inputs are still
// what they were: what went wrong is on stderr, one line that goes on "the ranks succeeded, but".
int upload_process(const Home& home, const JobId& job, bool registers,
                   std::span<const std::string> streamed);

}  // namespace muster
