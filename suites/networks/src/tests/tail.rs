//! Where spatial splitting ends, and whose parameters are divided from there on.

use super::*;

#[test]
fn the_tail_is_named_or_refused() {
    let net = |tail: &str| Cosmoflow { tail: Some(tail.into()), ..network(Variant::Paper2020) };
    assert_eq!(net("pool3").graph().expect("valid").nodes[net("pool3").graph().expect("valid").tail].name, "pool3");
    let message = net("pool9").graph().expect_err("refused").to_string();
    assert!(message.contains("'pool9'") && message.contains("pool5"), "{message}");
}

/// The layers whose parameters are divided.
fn divided(graph: &Graph, grid: &str) -> Vec<String> {
    let plan = NetPlan::new(graph.clone(), grid.parse().expect("valid"));
    let divided = (0..graph.nodes.len()).filter(|&i| plan.divides(i));
    divided.map(|i| graph.nodes[i].name.clone()).collect()
}

#[test]
fn parameters_are_divided_where_they_outnumber_values() {
    let net = |batch| cosmoflow(Variant::Paper2020, [128; 3], batch, Some(AxisSet::ALL));
    assert_eq!(divided(&net(1), "1x1x1x1"), [""; 0]);
    assert_eq!(divided(&net(1), "1x2x1x1"), ["conv5", "conv6", "conv7", "fc1", "fc2"]);
    assert_eq!(divided(&net(64), "2x2x1x1"), ["conv6", "conv7", "fc1"]);
    assert_eq!(divided(&net(128), "2x2x1x1"), ["fc1"]);
    assert_eq!(divided(&net(16), "16x16x16x16"), [""; 0]);
    // What the grids below are to show.
    let wide = narrow(Variant::Paper2020, [16, 18, 13], 2, None, Some("conv3"));
    assert_eq!(divided(&wide, "1x2x1x1"), ["conv3", "fc1"]);
}

/// The same, with a tail that may begin earlier.
fn with_moving_tail(graph: Graph) -> Graph {
    Graph { tail_moves: true, ..graph }
}

#[test]
fn the_tail_begins_where_parameters_are_worth_dividing_unless_it_is_named() {
    let first_of_tail = |graph: &Graph, grid: &str| {
        let plan = NetPlan::new(graph.clone(), grid.parse().expect("valid"));
        graph.nodes[plan.tail()].name.clone()
    };
    let net = |width: usize, batch, norm| cosmoflow(Variant::Paper2020, [width; 3], batch, norm);
    for norm in [None, Some(AxisSet::ALL)] {
        assert_eq!(first_of_tail(&net(128, 1, norm), "1x1x1x1"), "pool5");
        assert_eq!(first_of_tail(&net(128, 1, norm), "1x2x1x1"), "conv5");
        assert_eq!(first_of_tail(&net(128, 8, norm), "1x2x2x2"), "conv5");
        // What is sent is too much with this many samples, or with this many ranks without one.
        assert_eq!(first_of_tail(&net(128, 16, norm), "1x2x2x2"), "pool5");
        assert_eq!(first_of_tail(&net(128, 1, norm), "1x4x2x2"), "pool5");
        assert_eq!(first_of_tail(&net(256, 1, norm), "1x2x1x1"), "pool5");
    }
    // Two layers worth dividing, with batch norm between them.
    assert_eq!(first_of_tail(&net(48, 1, Some(AxisSet::ALL)), "1x2x1x1"), "conv4");
    // Statistics over some of the ranks depend on where samples are whole.
    assert_eq!(first_of_tail(&net(128, 1, Some(AxisSet::NONE)), "1x2x1x1"), "pool5");
    let named = Cosmoflow { volume: [128; 3], tail: Some("pool5".into()), ..network(Variant::Paper2020) };
    assert_eq!(first_of_tail(&named.graph().expect("valid"), "1x2x1x1"), "pool5");
}

#[test]
fn every_grid_gives_the_serial_gradients_wherever_the_tail_begins() {
    for norm in [None, Some(AxisSet::ALL)] {
        let graph = with_moving_tail(narrow(Variant::Paper2020, [16, 18, 13], 2, norm, Some("pool3")));
        assert_eq!(divided(&graph, "1x2x1x1"), ["conv3", "fc1"]);
        assert_grids_agree(&graph, &[2, 3, 4, 6]);
    }
}
