// Probes as a program of their own, where the whole of muster is not wanted.
#include <string>
#include <vector>

#include "health/benchmark/command.h"

int main(int argc, char** argv) {
  return muster::run_probe({argv + 1, argv + argc});
}
