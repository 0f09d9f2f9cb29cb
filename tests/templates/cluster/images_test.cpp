// What a cluster file says about images, and what it may not.
#include "templates/cluster/file.h"
#include "tests/catch.h"

using namespace muster;

namespace {

ClusterFile read_site(const std::string& text) {
  return read_cluster_file("site.yml", text, ReadOptions{});
}

std::string first_finding(const std::string& text) {
  const ClusterFile file = read_site(text);
  return file.findings.empty() ? "" : print(file.findings.front());
}

}  // namespace

TEST_CASE("a cluster file says which images, from where, and what environments are") {
  const ClusterFile file = read_site(
      "containers: {allow: ['mcr.microsoft.com/*', 'docker.io/*'], pull: controller}\n"
      "mirrors: {docker.io/: 'registry.lab:5000/hub/'}\n"
      "environments: {AzureML-acpt: 'registry.lab:5000/acpt:2.8', ACPT_Nebula: host}\n"
      "unknown_environment: refuse\n");
  CHECK(file.findings.empty());
  CHECK(file.images.allow == std::vector<std::string>{"mcr.microsoft.com/*", "docker.io/*"});
  CHECK(file.images.pull == ImageBringer::controller);
  CHECK(file.images.mirrors.at("docker.io/") == "registry.lab:5000/hub/");
  CHECK(file.images.environments.at("ACPT_Nebula") == "host");
  CHECK(file.images.refuses_unknown_environments);
  CHECK_FALSE(read_site("default: local\n").images.refuses_unknown_environments);
  CHECK(read_site("default: local\n").images.pull == ImageBringer::automatic);
  CHECK(read_site("containers: {pull: auto}\n").images.pull == ImageBringer::automatic);
  CHECK(read_site("containers: {pull: nodes}\n").images.pull == ImageBringer::nodes);
}

TEST_CASE("what no image is called is an error of the cluster file") {
  CHECK(first_finding("containers: {allow: ['a b']}\n").find("pattern of image names") !=
        std::string::npos);
  CHECK_FALSE(first_finding("containers: {allow: []}\n").empty());
  CHECK_FALSE(first_finding("containers: {pull: sometimes}\n").empty());
  CHECK_FALSE(first_finding("mirrors: {docker.io/: '--privileged'}\n").empty());
  CHECK_FALSE(first_finding("environments: {a: 'b c'}\n").empty());
  CHECK_FALSE(first_finding("containers: {alow: ['*']}\n").empty());
}

TEST_CASE("of several cluster files the first that says a thing counts, and all that they allow") {
  ImageSettings all = read_site("mirrors: {a/: b/}\ncontainers: {allow: ['a/*']}\n").images;
  add_images(all, read_site("mirrors: {a/: c/, d/: e/}\n"
                            "containers: {allow: ['d/*'], pull: controller}\n")
                      .images);
  CHECK(all.mirrors.at("a/") == "b/");
  CHECK(all.mirrors.at("d/") == "e/");
  CHECK(all.allow == std::vector<std::string>{"a/*", "d/*"});
  CHECK(all.pull == ImageBringer::controller);
}
