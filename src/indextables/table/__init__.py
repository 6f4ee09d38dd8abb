"""What can a user do? One module per verb over log and split, and the `Table` that offers them."""
