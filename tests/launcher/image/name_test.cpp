// What an image is called: in a job file, at its registry or a mirror, on a node.
#include "launcher/image/name.h"

#include "tests/catch.h"

using namespace muster;

TEST_CASE("an image's name is that which docker would take it for") {
  CHECK(whole_image_name("python") == "docker.io/library/python:latest");
  CHECK(whole_image_name("nvidia/cuda:12.4") == "docker.io/nvidia/cuda:12.4");
  CHECK(whole_image_name("mcr.microsoft.com/a/b") == "mcr.microsoft.com/a/b:latest");
  CHECK(whole_image_name("host:5000/b") == "host:5000/b:latest");
  CHECK(whole_image_name("localhost/b:1") == "localhost/b:1");
  CHECK(whole_image_name("x.io/b@sha256:aa") == "x.io/b@sha256:aa");
}

TEST_CASE("the parts of a name, with a port, a tag and a digest") {
  CHECK(registry_of("host:5000/a/b:1") == "host:5000");
  CHECK(repository_of("host:5000/a/b") == "host:5000/a/b");
  CHECK(repository_of("host:5000/a/b:1") == "host:5000/a/b");
  CHECK(repository_of("host:5000/a/b:1@sha256:cd") == "host:5000/a/b");
  CHECK(digest_in("host:5000/a/b:1@sha256:cd") == "sha256:cd");
  CHECK(digest_in("host:5000/a/b:1").empty());
  CHECK(with_digest("host:5000/a/b:1", "sha256:ef") == "host:5000/a/b@sha256:ef");
  CHECK(is_of_no_registry("localhost/b:1"));
  CHECK_FALSE(is_of_no_registry("localhost:5000/b:1"));
}

TEST_CASE("a mirror takes the place of the longest beginning that has one") {
  const std::map<std::string, std::string> mirrors = {
      {"docker.io/", "lab:5000/hub/"}, {"docker.io/nvidia/", "lab:5000/nv/"}, {"quay.io/", "q/"}};
  CHECK(mirrored("docker.io/library/python:3", mirrors) == "lab:5000/hub/library/python:3");
  CHECK(mirrored("docker.io/nvidia/cuda:12", mirrors) == "lab:5000/nv/cuda:12");
  CHECK(mirrored("mcr.microsoft.com/a:1", mirrors) == "mcr.microsoft.com/a:1");
  CHECK(mirrored("docker.io/a:1", {}) == "docker.io/a:1");
}

TEST_CASE("a site that lists what it allows allows nothing else") {
  const std::vector<std::string> allowed = {"mcr.microsoft.com/*", "docker.io/library/python:*"};
  CHECK(is_image_allowed("mcr.microsoft.com/a/b:1", allowed));
  CHECK(is_image_allowed("docker.io/library/python:3", allowed));
  CHECK_FALSE(is_image_allowed("docker.io/library/perl:5", allowed));
  CHECK_FALSE(is_image_allowed("evil.io/mcr.microsoft.com/a:1", allowed));
  CHECK(is_image_allowed("docker.io/library/perl:5", {}));
}

TEST_CASE("a node runs an image by its digest alone, whatever it is called") {
  const std::string hex(64, 'a');
  CHECK(name_on_node("x.io/b:1", "sha256:" + hex) == "localhost/muster/image:" + hex);
  CHECK(name_on_node("x.io/b:1", "") == "x.io/b:1");
  CHECK(is_image_digest("sha256:" + hex));
  CHECK_FALSE(is_image_digest("sha256:" + hex + "a"));
  CHECK_FALSE(is_image_digest("sha256:../" + hex.substr(3)));
  CHECK_FALSE(is_image_digest(hex));
}

TEST_CASE("an image of a job that was submitted before names were kept in full has one") {
  EnvironmentSpec environment;
  environment.image = "python";
  CHECK(pulled_image(environment) == "docker.io/library/python:latest");
  environment.pull_name = "lab:5000/hub/library/python:latest";
  CHECK(pulled_image(environment) == "lab:5000/hub/library/python:latest");
}
