#include "cli/job/submission.h"

#include "tests/catch.h"

using namespace muster;

namespace {

ComputeTarget target_of(TransportKind transport, const std::string& shared_root) {
  ComputeTarget target;
  target.nodes = {NodeAddress{}, NodeAddress{}};
  target.nodes[1].transport = transport;
  target.shared_root = shared_root;
  return target;
}

JobSpec spec_with(InputMode mode) {
  JobSpec spec;
  spec.code = "/project/code";
  InputSpec input;
  input.path_kind = PathKind::local;
  input.path = "/data/set";
  input.mode = mode;
  spec.inputs["data"] = input;
  InputSpec literal;
  literal.is_literal = true;
  spec.inputs["rate"] = literal;
  return spec;
}

std::vector<std::string> places(const JobSpec& spec, const ComputeTarget& target) {
  std::vector<std::string> out;
  for (const SnapshotRequest& request : sources_of(spec, target)) out.push_back(request.place);
  return out;
}

}  // namespace

TEST_CASE("an input is copied only where a node cannot see it") {
  const auto local = target_of(TransportKind::local, "");
  const auto remote = target_of(TransportKind::ssh, "");
  const auto shared = target_of(TransportKind::ssh, "/data");
  const auto elsewhere = target_of(TransportKind::ssh, "/dat");
  using Places = std::vector<std::string>;
  CHECK(places(spec_with(InputMode::ro_mount), local) == Places{"code"});
  CHECK(places(spec_with(InputMode::ro_mount), remote) == Places{"code", "inputs/data"});
  CHECK(places(spec_with(InputMode::ro_mount), shared) == Places{"code"});
  CHECK(places(spec_with(InputMode::ro_mount), elsewhere) == Places{"code", "inputs/data"});
  CHECK(places(spec_with(InputMode::download), local) == Places{"code", "inputs/data"});
  CHECK(places(spec_with(InputMode::direct), remote) == Places{"code"});
}

TEST_CASE("code may be written to and leaves out what it ignores; an input is copied whole") {
  const auto sources =
      sources_of(spec_with(InputMode::download), target_of(TransportKind::ssh, ""));
  REQUIRE(sources.size() == 2);
  CHECK(sources[0].source == "/project/code");
  CHECK(sources[0].writable);
  CHECK(sources[0].honour_ignore_files);
  CHECK(sources[1].source == "/data/set");
  CHECK_FALSE(sources[1].writable);
  CHECK_FALSE(sources[1].honour_ignore_files);
}

TEST_CASE("what is no file here is not copied: a job without code, an input of a service") {
  JobSpec spec = spec_with(InputMode::download);
  spec.code.clear();
  spec.inputs["data"].path_kind = PathKind::asset;
  CHECK(places(spec, target_of(TransportKind::ssh, "")).empty());
}
